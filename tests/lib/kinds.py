# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of test: what to run and what must hold afterwards.

A program says how it wants to be run in one line near its top:

    run: captures=2 modes=default,all needs=h5py timeout=120

captures=N      at least N files are captured with the shim (captures-all: in
                mode all only; captures-MODE likewise). Without it the number
                does not matter. captures=0: none may be.
referred=N      at least N % of what is captured was copied by no CPU (default mode)
untouched       the shim prints nothing and starts no agent
modes=A,B       the ways to run with the shim (program.py); default,all
exit=N|SIGNAME  the status that the plain run must have; 0
loose=A,B       files whose bytes differ from run to run (see recheck)
recheck         afterwards the program is run plainly with the argument `check`
                in the directories of all runs, and must print the same
needs=A,B       Python packages; an absent one skips the test
cuda            on the emulated GPU (tests/emu), with the PyTorch for CUDA
mem=N disk=N    GiB that must be available
by=COMMAND      takes long: run by `make COMMAND` alone
root slow tool  needs root; not with --quick; not a test by itself
timeout=S       seconds for each run; 60
"""
import functools
import glob
import os
import re
import shutil
import signal
import subprocess

from . import agents, program, state, summary


class Failure(Exception):
    pass


class Skip(Exception):
    pass


class Test:
    """One line of the report."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        self.tags = _tags(path) if path.endswith((".py", ".c", ".cc")) else {}
        self.timeout = float(self.tags.get("timeout", 60))

    def prepare(self, options):
        """Raises Skip where this machine lacks something."""
        if os.environ.get("CHECK") != self.tags.get("by", os.environ.get("CHECK")):
            raise Skip(f"takes long: make {self.tags['by']}")
        if "slow" in self.tags and options.quick:
            raise Skip("slow (--quick)")
        if "root" in self.tags and os.geteuid() != 0:
            raise Skip("needs root")
        if available_memory() < int(self.tags.get("mem", 0)) << 30:
            raise Skip(f"needs {self.tags['mem']} GiB of memory")
        if shutil.disk_usage(options.dir).free < int(self.tags.get("disk", 0)) << 30:
            raise Skip(f"needs {self.tags['disk']} GiB of disk")
        python = program.cuda_python() if "cuda" in self.tags else program.python()
        for module in filter(None, self.tags.get("needs", "").split(",")):
            if not has_module(module, python):
                raise Skip(f"no Python package {module}")


class Compared(Test):
    """A program that is run plain and with the shim in each of its modes."""

    def __init__(self, name, path, argv):
        super().__init__(name, path)
        self.argv = argv

    def run(self, options, directory, job):
        self.prepare(options)
        if not os.access(self.argv[0], os.X_OK):
            raise Failure(f"{self.argv[0]} is not built: make tests")
        plain, before = self.once(options, directory, job, None)
        expected = self.tags.get("exit", "0")
        status = int(expected) if expected.isdigit() else -getattr(signal, expected)
        if plain.status != status:
            raise Failure(f"plain: {plain.how()}, not {expected}\n{plain.tail()}")
        if options.plain:
            return
        modes = options.modes or self.tags.get("modes", "default,all").split(",")
        for mode in modes:
            outcome, after = self.once(options, directory, job, mode)
            said = self.compare(mode, plain, before, outcome, after, job)
            if options.verbose:
                print(f"  {mode}: {outcome.seconds:.1f} s, plain {plain.seconds:.1f} s\n{outcome.tail(200)}")
            if said:
                raise Failure("\n".join(f"{mode}: {s}" for s in said) + "\n" + outcome.tail())

    def runtime(self):
        return ""

    def once(self, options, directory, job, mode):
        cwd = os.path.join(directory, "run")  # the same path each time: some files name it
        os.mkdir(cwd)
        more = {} if "untouched" not in self.tags else {"PORTUS_SUMMARY": "0"}
        env = program.environment(job, mode, **(more if mode else {}))
        if "cuda" in self.tags:
            env = program.emulated(env, self.runtime())
        outcome = program.run(self.argv, cwd, env, self.timeout)
        found = state.snapshot(cwd)
        os.rename(cwd, os.path.join(directory, mode or "plain"))
        return outcome, found

    def compare(self, mode, plain, before, outcome, after, job):
        said = []
        if outcome.late or outcome.status != plain.status:
            said.append(f"{outcome.how()}, without the shim {plain.how()}")
        if outcome.out != plain.out:
            said.append("stdout differs" + _first_difference(plain.out, outcome.out))
        if not self.path.endswith(".py") and summary.without(outcome.err) != plain.err:
            said.append("stderr differs" + _first_difference(plain.err, summary.without(outcome.err)))
        loose = self.tags.get("loose", "").split(",")
        said += state.differences(before, after, loose)
        if "recheck" in self.tags:
            said += self.recheck(mode, job)
        return said + self.captured(mode, outcome, job)

    def recheck(self, mode, job):
        return []

    def captured(self, mode, outcome, job):
        if "untouched" in self.tags and mode != "again":
            said = [f"the shim said: {line.decode()}" for line in summary.lines(outcome.err)]
            return said + [f"the shim started agent {pid}" for pid in agents.pids(job)]
        wanted = self.tags.get("captures-" + mode, self.tags.get("captures"))
        if wanted is None or mode in ("off", "again"):
            return []
        if outcome.status == -signal.SIGKILL:  # no summary: an agent must have been there
            return [] if agents.pids(job) or wanted == "0" else ["nothing was captured: no agent"]
        count = summary.captured(outcome.err)
        if wanted == "0":
            return [f"captured {count} files, not none"] if count else []
        if count is None:  # it ended by exec
            return [] if agents.pids(job) else ["no summary and no agent"]
        said = [f"captured {count} files, not {wanted}"] if count < int(wanted) else []
        share = summary.referred(outcome.err)
        if mode == "default" and share < float(self.tags.get("referred", 0)):
            said.append(f"{share} % were copied by no CPU, not {self.tags['referred']}")
        return said


class App(Compared):
    """A Python program of some framework."""

    def __init__(self, name, path):
        super().__init__(name, path, [program.python(), path])
        if "cuda" in self.tags:
            self.argv[0] = program.cuda_python()

    def prepare(self, options):
        super().prepare(options)
        if not os.access(self.argv[0], os.X_OK):
            raise Skip("no Python with the frameworks (PORTUS_PYTHON, PORTUS_VENV)")
        if "cuda" in self.tags and self.runtime() not in ("12", "13"):
            raise Skip(f"no PyTorch for CUDA 12 or 13 in {self.argv[0]} (PORTUS_CUDA_VENV)")

    def runtime(self):
        """Of CUDA: the version of the runtime that its PyTorch is for."""
        return torch_cuda(self.argv[0]).partition(".")[0]

    def once(self, options, directory, job, mode):
        outcome, found = super().once(options, directory, job, mode)
        if "recheck" in self.tags:
            cwd = os.path.join(directory, mode or "plain")
            again = program.run([*self.argv, "check"], cwd, program.environment(job), self.timeout)
            if again.status != 0:
                raise Failure(f"{mode or 'plain'}: check: {again.how()}\n{again.tail()}")
            self.checks = getattr(self, "checks", {}) | {mode: again.out}
        return outcome, found

    def recheck(self, mode, job):
        same = self.checks[mode] == self.checks[None]
        return [] if same else ["what loads differs" + _first_difference(self.checks[None], self.checks[mode])]


class Script(Test):
    """A test that runs programs itself: exit status 0 passes, 77 skips."""

    def run(self, options, directory, job):
        self.prepare(options)
        if options.plain:
            raise Skip("runs with the shim only")
        if not os.access(self.path, os.X_OK) and not self.path.endswith(".py"):
            raise Failure(f"{self.path} is not built: make tests")
        env, argv = program.environment(job, B=program.BUILD, TEST_DIR=directory), [self.path]
        if self.path.endswith(".py"):
            tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
            env.update(PYTHONPATH=tests, PORTUS_PYTHON=program.python())
            if "PORTUS_CUDA_VENV" in os.environ:
                env["PORTUS_CUDA_VENV"] = os.environ["PORTUS_CUDA_VENV"]
            argv = ["python3", self.path]
        outcome = program.run(argv, directory, env, self.timeout)
        if options.verbose:
            print(outcome.tail(200))
        if outcome.status == 77:
            raise Skip((outcome.err or outcome.out).decode().strip().splitlines()[-1])
        if outcome.late or outcome.status != 0:
            raise Failure(f"{outcome.how()}\n{outcome.tail()}")


def find(root, build):
    """All tests of the project."""
    units = [os.path.basename(p)[:-2] for p in sorted(glob.glob(f"{root}/unit/*_test.c"))]
    tests = [Script(f"unit/{u}", f"{build}/tests/unit/{u}") for u in units]
    emulated = [os.path.basename(p)[:-2] for p in sorted(glob.glob(f"{root}/emu/*_test.c"))]
    tests += [Script(f"emu/{u}", f"{build}/tests/emu/{u}") for u in emulated]
    for source in sorted(glob.glob(f"{root}/shim/*.c") + glob.glob(f"{root}/shim/*.cc")):
        name = os.path.splitext(os.path.basename(source))[0]
        tests.append(Compared(f"shim/{name}", source, [f"{build}/tests/shim/{name}"]))
    for kind in ("shim", "app", "ctl", "emu", "world", "zoo", "vm", "site"):
        for source in sorted(glob.glob(f"{root}/{kind}/*.py")):
            name = f"{kind}/{os.path.basename(source)[:-3]}"
            script = kind != "app" or "script" in _tags(source)
            tests.append((Script if script else App)(name, source))
    tests += [Script(f"ctl/{os.path.basename(p)}", p) for p in sorted(glob.glob(f"{root}/ctl/*"))
              if not p.endswith(".py") and os.access(p, os.X_OK) and os.path.isfile(p)]
    return [t for t in tests if "tool" not in t.tags]


def _tags(path):
    with open(path, encoding="utf-8") as f:
        line = re.search(r"^\W*run: (.*)$", f.read(4096), re.M)
    words = line.group(1).split() if line else []
    return {w.partition("=")[0]: w.partition("=")[2] for w in words if w != "*/"}


def _first_difference(a, b):
    x, y = a.decode(errors="replace").splitlines(), b.decode(errors="replace").splitlines()
    for i in range(max(len(x), len(y))):
        old, new = (lines[i] if i < len(lines) else "(end)" for lines in (x, y))
        if old != new:
            return f" in line {i + 1}: {new!r}, without the shim {old!r}"
    return ""


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as f:
        return int(re.search(r"MemAvailable:\s+(\d+)", f.read()).group(1)) << 10


@functools.cache
def has_module(name, python):
    code = f"import importlib.util as u, sys; sys.exit(not u.find_spec({name!r}))"
    try:
        return subprocess.run([python, "-c", code], check=False).returncode == 0
    except OSError:
        return False


@functools.cache
def torch_cuda(python):
    """The version of CUDA that its PyTorch is for, or nothing; without importing it."""
    code = ("import importlib.util as u, os, runpy; spec = u.find_spec('torch');"
            "print(runpy.run_path(os.path.join(os.path.dirname(spec.origin), 'version.py'))['cuda'] or '')")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()
