# SPDX-License-Identifier: BSD-3-Clause
"""
Kills of portusd at counted system calls, alone and with those whose files it keeps.

As kills.py, with a pool. The store must not hurt a save: all that is right there is right here.
And of the pool, as a fresh opening finds it: each version holds what some file was when it
was closed; each that the agent was told of is there, or what a rename made of it; the files of
a program that goes on after portusd was killed are kept by another one, and those of the next
program; and that counts as much free as a fresh opening does.
"""
import binascii
import os
import re
import signal
import subprocess
import time

from . import agents, kills, program

CTL, KEPT = (os.path.join(program.BUILD, name) for name in ("portusctl", "tests/kill/kept"))
LAST, NEXT = "last.ckpt", "next.ckpt"
PATIENCE = 8  # seconds until a file is in the pool
POOLS = {"all": ("64M", 64), "drained": ("8M", 64)}  # in the second one versions must go

KINDS = {
    "portusd": (("{0}=d", "{0}=d", "{0}=dr"), 6),
    "portusd, then portusd": (("{0}=d,{1}=d", "{0}=d,d{2}=d", "{0}=d,d{3}=d"), 4),
    "portusd ends": (("{0}-d", "{0}-d,d{2}=d", "{0}-d,d{3}-d"), 3),
    "portusd and agent": (("{0}=dw", "{0}=kwd", "{0}=d,{1}=kw", "{0}=kw,{1}=d", "{0}=w"), 4),
    "portusd and program": (("{0}=pd", "{0}=p", "{0}=d,{1}=p"), 2),
    "all": (("{0}=pkwd", "{0}=dwkp"), 2),
}


def operations(large):
    """Saves as in kills.py, fewer, with time for them to be kept; renamed, written again at once, deleted."""
    ops = []
    for s in range(3):
        d = 20 * s
        ops += [["mkdir", f"s{s}"]]
        for i in range(2):
            ops += [["open", f"s{s}/{i}.ckpt"], ["write", large + i, d + i], ["write", 100, d + 2], ["close"]]
        ops += [["open", "again.ckpt"], ["write", large, d + 3], ["close"], ["pause", 60]]
        ops += [["open", "again.ckpt"], ["write", large // 2, d + 4], ["close"]]
        ops += [["open", "tmp.ckpt"], ["write", large // 2, d + 5], ["close"], ["pause", 30],
                ["rename", "tmp.ckpt", "best.ckpt"], ["rename", f"s{s}", f"step{s}"], ["pause", 60]]
        if s:
            ops += [["unlink", f"step{s - 1}/{i}.ckpt"] for i in range(2)] + [["rmdir", f"step{s - 1}"]]
    return [*ops, ["open", LAST], ["write", large, 7], ["close"]]


class Way(kills.Way):
    """One pool."""

    roles, chances = "pkwd", (2, 1, 3, 6)
    operations = staticmethod(operations)

    def __init__(self, mode, large, top, job):
        self.next = os.path.join(top, f"{mode}-next")
        with open(self.next, "w", encoding="ascii") as f:
            f.write(f"open {NEXT}\nwrite {large} 9\nclose\n")
        super().__init__(mode, large, top, job)

    def environment(self, directory, job):
        pool, (size, objects) = directory + ".pool", POOLS[self.mode]
        subprocess.run([CTL, "pool", "create", pool, size, "--objects", str(objects)], check=True,
                       stdout=subprocess.DEVNULL)
        return program.environment(job, self.mode, PORTUS_SAMPLE=0, PORTUS_STORE=pool,
                                   PORTUS_LOG=f"debug:{directory}.log")

    def more(self, victims, run, directory):
        pool, job = directory + ".pool", f"{os.path.basename(directory)}-{os.getpid()}-next"
        try:
            said = self.wrong(victims, run, directory, pool, job)
        finally:
            agents.kill(job)
            for pid in agents.stores(pool):
                os.kill(pid, signal.SIGKILL)
        if not said:
            os.unlink(pool)
            os.unlink(directory + ".log")
        return said

    def wrong(self, victims, run, directory, pool, job):
        kept = Kept(pool)
        if kept.wrong:
            return f"the pool: {kept.wrong}"
        said = self.strange(kept, directory) or self.lost(kept, directory)
        if said:
            return said
        early = all(at < len(self.ops) - 3 for at in run.at)
        if run.status == 0 and early and not set(victims) & set("kw") and LAST not in kept.names(directory):
            return f"{LAST} is not kept"
        env = program.environment(job, self.mode, PORTUS_SAMPLE=0, PORTUS_STORE=pool,
                                  PORTUS_LOG=f"debug:{directory}.log")
        done = program.run([kills.SAVES, self.files[0], self.next], directory, env, 20)
        if done.status != 0:
            return f"the next program: {done.how()}"
        if not agents.until(lambda: NEXT in Kept(pool).names(directory), PATIENCE, 0.05):
            return f"{NEXT} is not kept: {open(directory + '.log').read()[-1500:]}"
        return self.leaks(directory, pool)

    def strange(self, kept, directory):
        """A version that is no file as it was closed, or not at its path."""
        for number, (_, _, crc, path) in kept.versions.items():
            if crc not in self.closed:
                return f"commit {number} of {path} is no file that was closed"
            if not path.startswith(directory + "/"):
                return f"commit {number}: a foreign path, {path}"
        return ""

    @property
    def closed(self):
        """CRCs of all that a file was when it was closed."""
        found, path = set(), None
        for (op, *rest), state in zip(self.ops, self.states[1:]):
            path = rest[0] if op == "open" else path
            if op == "close":
                found.add(binascii.crc32(state[path]))
        return found

    def lost(self, kept, directory):
        """A version that the agent was told of and is not there; in a pool that has room for all."""
        if self.mode != "all":
            return ""
        log = ""
        if os.path.exists(directory + ".log"):
            with open(directory + ".log", encoding="utf-8", errors="replace") as f:
                log = f.read()
        bytes_of = {int(n): int(size) for n, size in re.findall(r"portusd: .*commit (\d+): (\d+) bytes", log)}
        for number in map(int, re.findall(r"the store has it: commit (\d+)", log)):
            renamed = any(n > number and size == bytes_of.get(number) for n, (size, *_) in kept.versions.items())
            if number not in kept.versions and not renamed:
                return f"commit {number} is lost"
        return ""

    def leaks(self, directory, pool):
        """Whether a portusd that runs counts as much free as a fresh opening, and ends."""
        free, before = 0, {}
        for _ in range(50):  # it may be committing still
            kept = Kept(pool)
            if kept.free == free and kept.versions == before and not agents.held("", directory):
                break
            free, before = kept.free, kept.versions
            time.sleep(0.05)
        done = subprocess.run([CTL, "gc", "--store", pool, str(free)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"it counts less than {free} bytes free: {done.stdout}{done.stderr}"
        if Kept(pool).versions != before:
            return f"it counted less than {free} bytes free, and removed versions"
        for pid in agents.stores(pool):
            os.kill(pid, signal.SIGTERM)
        if not agents.until(lambda: not agents.stores(pool), 5):
            return "portusd does not end"
        return "" if Kept(pool).versions == before else "another pool after its end"


class Kept:
    """What kept.c says of a pool."""

    def __init__(self, pool):
        done = subprocess.run([KEPT, pool], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        self.wrong = "" if done.returncode == 0 else done.stdout + done.stderr
        self.free = int(lines[0].split()[1]) if lines else 0
        self.versions = {}
        for line in lines[1:]:
            number, size, mtime, crc, path = line.split(" ", 4)
            self.versions[int(number)] = int(size), int(mtime), int(crc), path

    def names(self, directory):
        """Files of the directory that are kept as they are."""
        found = set()
        for size, mtime, crc, path in self.versions.values():
            try:
                status = os.stat(path)
                with open(path, "rb") as f:
                    if (status.st_size, status.st_mtime_ns) == (size, mtime) and binascii.crc32(f.read()) == crc:
                        found.add(os.path.relpath(path, directory))
            except OSError:
                pass
        return found


def sweep(top, job, modes=None):
    ways = [Way(mode, 400_000, top, job) for mode in POOLS if modes is None or mode in modes]
    return kills.Sweep(top, job, ways=ways)
