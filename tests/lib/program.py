# SPDX-License-Identifier: BSD-3-Clause
"""Running a program plain or with the shim."""
import os
import signal
import subprocess
import time

BUILD = os.path.abspath(os.environ.get("B", "build"))
SHIM = os.path.join(BUILD, "libportus_shim.so")
SLOW = float(os.environ.get("SLOW", "1"))  # a guest's processor may be emulated

# The ways to run with the shim; the variables that each adds.
ALL = {"PORTUS_MIN_WRITE": "1", "PORTUS_MATCH": "*", "PORTUS_SAMPLE": "0"}
MODES = {
    "default": {},
    "all": ALL,
    "ring": {**ALL, "PORTUS_RING_SIZE": "16M"},
    "drained": {**ALL, "PORTUS_CLOSE": "drained"},
    "durable": {**ALL, "PORTUS_CLOSE": "durable"},
    "relaxed": {**ALL, "PORTUS_ORDER": "relaxed"},
    "exact": {"PORTUS_CRC": "exact"},
    "copied": {"PORTUS_PROMISE": "off"},
    "off": {"PORTUS": "off"},
    "again": None,  # plainly: shows whether a test differs by itself
}


class Outcome:
    """How a run ended: status as in subprocess, and what it printed."""

    def __init__(self, status, out, err, seconds, late=False):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds
        self.late = late

    def how(self):
        if self.late:
            return f"no end after {self.seconds:.0f} s"
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        return f"exit status {self.status}"

    def tail(self, lines=25):
        said = []
        for title, text in (("stdout", self.out), ("stderr", self.err)):
            last = text.decode(errors="replace").splitlines()[-lines:]
            said += [f"    {title}| {line}" for line in last]
        return "\n".join(said)


def python():
    """The Python that has the frameworks."""
    default = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "portus/venv")
    return os.environ.get("PORTUS_PYTHON") or \
        os.path.join(os.environ.get("PORTUS_VENV", default), "bin/python")


def cuda_python():
    """The Python that has PyTorch for CUDA: the same, where it is the build that PyPI has."""
    venv = os.environ.get("PORTUS_CUDA_VENV")
    return os.path.join(venv, "bin/python") if venv else python()


def emulated(env, runtime=""):
    """The environment with the emulated GPU; runtime: and that of this CUDA in front of the wheel's own."""
    emulator = os.path.join(BUILD, "tests/emu")
    paths = [emulator, *filter(None, [env.get("LD_LIBRARY_PATH")])]
    first = [*filter(None, [env.get("LD_PRELOAD")]), *[f"{emulator}/libcudart.so.{runtime}"] * bool(runtime)]
    return {**env, "LD_LIBRARY_PATH": ":".join(paths), "LD_PRELOAD": ":".join(first)}


def environment(job, mode=None, **more):
    """The environment of a run; mode None is plain."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PORTUS") and k != "LD_PRELOAD"}
    env.update(LC_ALL="C", PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="2",
               HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", PORTUS_JOB=job)
    if MODES.get(mode) is not None:
        env.update(LD_PRELOAD=SHIM, PORTUS_SUMMARY="1", **MODES[mode])
        if os.environ.get("AGENT"):  # another build of it: tests/sanitize
            env["PORTUS_AGENT"] = os.environ["AGENT"]
    env.update({k: str(v) for k, v in more.items()})
    return env


def start(argv, cwd, env, **options):
    """A program in a session of its own, its output in pipes."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
               "start_new_session": True, **options}
    return subprocess.Popen(argv, cwd=cwd, env=env, **options)


def finish(process, timeout):
    """Waits for its end and for that of its pipes, both within timeout seconds."""
    begin, late = time.monotonic(), False
    try:
        out, err = process.communicate(timeout=timeout * SLOW)
    except subprocess.TimeoutExpired:
        late = True
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            out, err = process.communicate(timeout=5)
        except subprocess.TimeoutExpired as e:
            out, err = e.stdout or b"", (e.stderr or b"") + b"\n(a pipe is still held open)\n"
    return Outcome(process.returncode if process.returncode is not None else -9, out or b"", err or b"",
                   time.monotonic() - begin, late)


def run(argv, cwd, env, timeout=60, **options):
    return finish(start(argv, cwd, env, **options), timeout)
