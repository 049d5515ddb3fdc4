# SPDX-License-Identifier: BSD-3-Clause
"""System calls that fail in portusd, and in what portusctl does to a pool.

Three kinds of runs, whose points are of role d but in the first:

* `all`, `relaxed`: a program saves with PORTUS_STORE. It is as without a fault, whatever fails in the agent
  and in portusd, which is told to end when all is kept. What it says that it committed is in the pool; what is
  not kept, though it is in a run without a fault, has a line in the log.
* `command`: portusctl with a pool and no portusd.
* `served`: portusd with a socket of its own, asked by portusctl (without a fault), and told to end.

A command that ends with 0 has done what it does without a fault; else it says why. In all of them there is
an end, by no signal; and the pool opens, is whole, and holds what was in it.
"""
import binascii
import os
import re
import shutil
import signal
import subprocess
import sys

from lib import agents, program, store_kills

CTL, DAEMON = (os.path.join(program.BUILD, name) for name in ("portusctl", "portusd"))
PATIENCE = 20  # seconds for a command and for an end
ANSWER = 30  # and so long portusctl waits for a portusd

# Run in a directory with a pool, the files that were imported below from/, tar.tar, and out/.
COMMANDS = {
    "create": "pool create out/new 8M",
    "info": "pool info pool",
    "check": "pool check --remove-damaged pool",
    "larger": "pool resize pool 12M",
    "smaller": "pool resize pool 6M",
    "badblocks": "pool badblocks pool",
    "ls": "ls --json --store pool",
    "versions": "versions --store pool /a",
    "restore": "restore --store pool --to out /a",
    "verify": "verify --store pool",
    "diff": "diff --store pool /a/x.ckpt 1 3",
    "complete": "complete --store pool from",
    "pin": "pin --store pool /a",
    "rm": "rm --store pool --version 1 /a/x.ckpt",
    "gc": "gc --store pool 7M",
    "scrub": "scrub --store pool --pace 1G",
    "export": "export --store pool --all --to out",
    "tar": "export --store pool --all --tar",
    "import": "import --store pool more",
    "untar": "import --store pool --all --tar",
}
SERVED = {"ls": "ls --store {}", "verify": "verify --store {}", "restore": "restore --store {} --to out /a",
          "pin": "pin --store {} /a", "scrub": "scrub --store pool --pace 1G", "import": "import --store {} more",
          "gc": "gc --store pool 7M"}
AGES = re.compile(rb"\"age\"[^,}]*|\d+(\.\d+)? (s|ms)\b|created .*|uuid.*", re.I)
TOLD = re.compile("not kept there|portusd|pool|written as usual|no shared memory|write the rest themselves|no worker|no socket")


def ended(outcome, argv0, hit=None, point=None):
    """What is wrong with how a command ended."""
    if point and point.always and point.call == "write" or hit and re.search(r"(write\(0x[12]|(fcntl|fstat|newfstatat)\(0x2),", hit):
        return []  # what it has to say cannot be said
    if outcome.late or outcome.status < 0 or outcome.status > 2:
        return [f"{argv0}: {outcome.how()}: {outcome.err[-300:]!r}"]
    return [f"{argv0} fails and does not say why"] if outcome.status and not outcome.err.strip() else []


def files(top):
    found = {}
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, top)] = f.read() if not name.startswith("new") else b""
    return found


def content(kept):
    return {number: (crc, path) for number, (_, _, crc, path) in kept.versions.items()}


class Saves:
    """What a save with a store adds to Faults."""

    options = ["-s"]

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.expected = None

    def more(self, mode, directory):
        if mode is None:
            return {}
        subprocess.run([CTL, "pool", "create", directory + ".pool", "16M"], check=True, stdout=subprocess.DEVNULL)
        return {"PORTUS_STORE": directory + ".pool", "PORTUS_LOG": f"debug:{directory}.log"}

    def after(self, outcome, lines, directory):
        pool, log = directory + ".pool", directory + ".log"
        if not os.path.exists(pool):
            return
        for pid in agents.stores(pool):
            agents.kill_one(pid, signal.SIGKILL)
        agents.until(lambda: not agents.stores(pool), 5)
        for word, rest in [line for line in lines if len(line) == 2]:
            if word == "store" and int(rest.split()[1]) not in (0, 1 << 8):
                outcome.wrong.append(f"portusd ended with {rest.split()[1]}")
        kept = store_kills.Kept(pool)
        if kept.wrong:
            outcome.wrong.append(f"the pool: {kept.wrong}")
        said = ""
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as f:
                said = f.read()
        outcome.log = said
        size_of = {int(n): int(size) for n, size in re.findall(r"portusd: .*commit (\d+): (\d+) bytes", said)}
        for number, size in size_of.items():
            moved = any(n > number and v[0] == size for n, v in kept.versions.items())
            if number not in kept.versions and not moved:
                outcome.wrong.append(f"commit {number} is lost")
        for _, _, _, path in kept.versions.values():
            if not path.startswith(directory + "/"):
                outcome.wrong.append(f"a foreign path, {path}")
        outcome.kept = {path[len(directory) + 1:] for _, _, crc, path in kept.versions.values()
                        if binascii.crc32(outcome.files.get(path[len(directory) + 1:]) or b"") == crc}
        os.unlink(pool)
        if os.path.exists(log):
            os.unlink(log)

    def judge(self, point, outcome):
        wrong = super().judge(point, outcome)
        if point is None and self.plain is not outcome:
            self.expected = outcome.kept if self.expected is None else self.expected & outcome.kept
        elif point and not (outcome.hit and ".log" in outcome.hit):
            missing = self.expected - outcome.kept
            outcome.log = re.sub(r"portusd: commit .*|.* is captured|.*the store has .*", "", outcome.log)
            if missing and not TOLD.search(outcome.log):
                wrong.append(f"{sorted(missing)} not kept, and no line says so")
        if wrong:
            outcome.err += b"\n".join(b"portus: log: " + line.encode() for line in outcome.log.split("\n")[-12:] if line)
        return wrong


class Commands:
    """portusctl without a portusd, and a portusd that is asked; in copies of one directory."""

    def __init__(self, top, inject, spell):
        self.top, self.inject, self.spell = top, inject, spell
        self.number, self.model, self.clean = 0, os.path.join(top, "model"), {}
        for turn, directory in enumerate(("from", "from", "more")):
            where = os.path.join(self.model, directory, "a")
            os.makedirs(where, exist_ok=True)
            for name, size in (("x.ckpt", 700_000), ("y.ckpt", 300_000 + turn)):
                with open(os.path.join(where, name), "wb") as f:
                    f.write(bytes([turn + 1]) * 5000 + os.urandom(size))
            if turn == 0:
                self.ctl("pool create pool 8M --objects 64", self.model)
            if turn < 2:
                self.ctl("import --store pool from", self.model)
        self.ctl("export --store pool --all --tar", self.model, os.path.join(self.model, "tar.tar"))
        os.mkdir(os.path.join(self.model, "out"))
        self.before = content(store_kills.Kept(os.path.join(self.model, "pool")))

    @staticmethod
    def ctl(text, where, output=os.devnull):
        with open(output, "wb") as out:
            subprocess.run([CTL, *text.split()], cwd=where, check=True, stdout=out)

    def once(self, name, point):
        """(found, wrong, calls, hit): what the run left, and what is wrong with that by itself."""
        self.number += 1
        where, log = (os.path.join(self.top, f"{word}{self.number}") for word in ("w", "log"))
        shutil.copytree(self.model, where)
        seconds = (ANSWER + PATIENCE) * (len(SERVED) + 2) if name == "served" else PATIENCE
        argv = [self.inject, "-d", log, str(seconds), self.spell(point) if point else "none"]
        env = program.environment(f"faults-{os.getpid()}-{name}", PORTUS_LOG="warn")
        if name == "served":
            found, wrong = self.serve(argv, env, where)
        else:
            with open(os.path.join(where, "tar.tar"), "rb") as tar:
                done = program.run([*argv, CTL, *COMMANDS[name].split()], where, env, PATIENCE + 10, stdin=tar)
            found, wrong = [AGES.sub(b"", done.out)], []
        calls, hit, status = {}, None, 0
        with open(log, encoding="ascii", errors="replace") as f:
            for word, _, rest in (line.rstrip("\n").partition(" ") for line in f):
                if word == "calls":
                    role, step, call, raw, count = rest.split()
                    calls[role, int(step), call, int(raw)] = int(count)
                elif word == "hit":
                    hit = rest
                elif word == "status":
                    status = int(rest)
                elif word == "late":
                    wrong.append("no end")
        if name != "served":
            done.status = os.waitstatus_to_exitcode(status) if status >= 0 else 0
            wrong += ended(done, name, hit, point)
            self.said = done.err
        else:
            code = os.waitstatus_to_exitcode(status) if status >= 0 else 0
            done = program.Outcome(code, b"", self.said, 0)
            wrong += ended(done, "portusd", hit, point)
        if name in ("create",) and done.status == 0:
            wrong += [f"the new pool: {w}" for w in [store_kills.Kept(os.path.join(where, "out/new")).wrong] if w]
        found.append(files(os.path.join(where, "out")))
        kept = store_kills.Kept(os.path.join(where, "pool"))
        wrong += [f"the pool: {kept.wrong}"] if kept.wrong else []
        found.append(content(kept))
        again = program.run([CTL, "gc", "--store", "pool", "1"], where, env, PATIENCE)
        if again.status != 0:
            wrong.append(f"the pool does not open again: {again.err[-300:]!r}")
        shutil.rmtree(where)
        os.unlink(log)
        return done.status, found, wrong, calls, hit

    def serve(self, argv, env, where):
        """portusd, and what is asked of it."""
        socket, found, wrong = os.path.join(where, "s"), [], []
        argv = [*argv, DAEMON, "--listen", socket, os.path.join(where, "pool")]
        with open(os.path.join(where, "err"), "wb") as err:
            process = subprocess.Popen(argv, env=env, cwd=where, stderr=err, stdin=subprocess.DEVNULL)
        agents.until(lambda: os.path.exists(socket) or process.poll() is not None, PATIENCE)
        for name, text in SERVED.items():
            env["PORTUS_STORE"] = "unix:" + socket
            done = program.run([CTL, *text.replace("pool", "{}").format("unix:" + socket).split()], where, env,
                               ANSWER + PATIENCE)
            wrong += ended(done, f"served {name}")
            found.append((name, AGES.sub(b"", done.out) if name != "ls" else b"") if done.status == 0 else None)
        for pid in agents.stores(os.path.join(where, "pool")):
            agents.kill_one(pid, signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            wrong.append("portusd does not end when it is told to")
            for pid in agents.stores(os.path.join(where, "pool")):
                agents.kill_one(pid, signal.SIGKILL)
            process.wait(5)
        with open(os.path.join(where, "err"), "rb") as f:
            self.said = f.read()
        return found, wrong

    def judge(self, name, status, found, wrong):
        *said, out, kept = found
        *said0, out0, kept0 = self.clean[name]
        wrong = list(wrong)
        ok = [one is None or one == other for one, other in zip(said, said0)]
        if not all(ok) and (status == 0 or name == "served"):
            wrong.append(f"other output: {[s for s, good in zip(said, ok) if not good]}"[:300])
        if status == 0 and name != "served" and (out, kept) != (out0, kept0):
            wrong.append(f"ends with 0, and has done something else: {sorted(out)}, {sorted(kept)}")
        for path, data in out.items():
            if out0.get(path) != data and not re.search(r"portus|\.new|^new", path):
                wrong.append(f"out/{path}: {len(data)} bytes that are not right")
        for number, version in self.before.items():
            if number in kept0 and kept.get(number) != version:
                wrong.append(f"version {number} is gone")
        for number, (crc, path) in kept.items():
            if (crc, path) not in [*kept0.values(), *self.before.values()]:
                wrong.append(f"version {number} is none that was put in")
        return wrong


def commands(top, inject, spell, points_of, sampled, options, chance, report):
    """Runs all commands with their faults. How many went wrong."""
    runs, failed = Commands(top, inject, spell), 0
    for name in options.commands or [*COMMANDS, "served"]:
        _, runs.clean[name], wrong, calls, _ = runs.once(name, None)
        _, again, more, counted, _ = runs.once(name, None)
        wrong += more + runs.judge(name, 0, again, [])
        if wrong:
            failed += 1
            report(name, None, wrong, b"")
        points = options.points or points_of({key: min(calls.get(key, 0), counted.get(key, 0)) for key in calls})
        if options.sample:
            points = sampled(points, max(3, options.sample // len(COMMANDS)) * (5 if name == "served" else 1), chance)
        for point in points:
            status, found, wrong, _, hit = runs.once(name, point)
            bad = runs.judge(name, status, found, wrong)
            if options.verbose:
                print(name, spell(point), hit, status, runs.said, flush=True)
            if bad:
                failed += 1
                report(name, point, [str(hit), *bad], runs.said)
        print(f"{name}: {len(points)} faults at {len({p[:4] for p in points})} kinds of calls", flush=True)
    return failed
