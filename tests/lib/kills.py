# SPDX-License-Identifier: BSD-3-Clause
"""
Kills at counted system calls: program, keeper and worker, in all combinations.

tests/kill/saves.c does OPS under tests/kill/step.c, which kills at the Nth stop of
a role. `plan` says whom and when, `run` does it and looks at what is left.
"""
import collections
import concurrent.futures
import itertools
import os
import random
import re
import shutil
import subprocess
import time

from . import program, state, summary, writer

STEP = os.path.join(program.BUILD, "tests/kill/step")
SAVES = os.path.join(program.BUILD, "tests/kill/saves")
LIMIT = 25  # seconds of a run
REFUSED = 2  # files at most that have no agent after a kill of it
BIND = "49"  # stopped there the keeper has its name and cannot be called by it: no other can begin
PUBLISHES = ("mkdir", "rmdir", "unlink", "rename", "fsync")

# How the shim is set, the size of a large write, how often.
WAYS = (("all", 200_000, 6), ("default", 1_100_000, 3), ("drained", 200_000, 1), ("ring", 7_000_000, 1))

# A kind of trial: events, with {0} and {1} for the first and the second stop; how often.
KINDS = {
    "program": (("{0}=p", "{0}=pr"), 6),
    "keeper": (("{0}=k", "{0}=kr"), 3),
    "worker": (("{0}=w", "{0}=wr"), 4),
    "keeper and worker": (("{0}=kw", "{0}=wk", "{0}=kwr"), 4),
    "all": (("{0}=pkw", "{0}=kwp", "{0}=wpk", "{0}=pwk"), 6),
    "agent, then agent": (("{0}=w,{1}=w", "{0}=w,{1}=k", "{0}=kw,{1}=kw"), 3),
    "agent, then all": (("{0}=k,{1}=kwp", "{0}=w,{1}=pkw", "{0}=kw,{1}=pwk"), 4),
    "agent, then program": (("{0}=kw,{1}=p", "{0}=w,{1}=p"), 2),
    "program and worker": (("{0}=pw", "{0}=wp", "{0}=p,{1}=w"), 4),
}
STOPS = {"stopped": (("{0}~kw", "{0}~w", "{0}~k", "{0}~kw@{2}", "{0}~w@{2}"), 1)}


def operations(large, steps=3):
    """A training program's life, with most ways to write a file."""
    ops = []
    for s in range(steps):
        d = 20 * s
        ops += [["mkdir", f"s{s}"], ["open", f"s{s}/model.ckpt"], ["write", 64, d], ["writev", large, d + 1],
                ["write", 100, d + 2], ["patch", 30, d + 3, 8], ["write", large // 2, d + 4], ["close"]]
        ops += [["fopen", f"s{s}/optimizer.ckpt"], ["fwrite", 20, d + 5], ["fwrite", large, d + 6],
                ["fpatch", 20, d + 7, 0], ["fwrite", 33, d + 8], ["fclose"], ["size", f"s{s}/model.ckpt"]]
        ops += [["open", f"s{s}/meta.json"], ["write", 300, d + 9], ["close"]]
        ops += [["open", "latest.new"], ["write", 9, d + 10], *([["fsync"]] if s == 1 else []), ["close"],
                ["rename", "latest.new", "latest"]]
        ops += [["open", "last.ckpt"], ["write", large, d + 11], ["close"], ["sum", "last.ckpt"] if s % 2 else ["fork"]]
        ops += [["open", "tmp.ckpt"], ["truncate", large + 10], ["write", 10, d + 12], ["write", large, d + 13],
                ["close"], ["rename", "tmp.ckpt", "best.ckpt"]]
        if s:
            ops += [["unlink", f"s{s - 1}/{n}"] for n in ("model.ckpt", "optimizer.ckpt", "meta.json")]
            ops += [["rmdir", f"s{s - 1}"]]
    return [*ops, ["open", "end.ckpt"], ["write", large, 1]]


class Way:
    """One setting of the shim, and how a run of it goes that nobody disturbs."""

    roles, chances = "pkw", (5, 4, 1)  # of a kill at a stop of theirs
    operations = staticmethod(operations)

    def __init__(self, mode, large, top, job):
        self.mode, self.ops = mode, self.operations(large)
        self.states = writer.states(self.ops)
        self.known = {v: v for s in self.states for v in s.values() if v}
        self.files = [os.path.join(top, f"{mode}-{n}") for n in ("base", "operations")]
        with open(self.files[0], "wb") as f:
            f.write(writer.BASE)
        with open(self.files[1], "w", encoding="ascii") as f:
            f.writelines(" ".join(map(str, op)) + "\n" for op in self.ops)
        plain = os.path.join(top, f"{mode}-plain")
        os.mkdir(plain)
        self.out = program.run([SAVES, *self.files], plain, program.environment(job), 60).out
        assert self.look(plain) == self.states[-1], "the plain run"
        self.stops = {}
        for role in self.roles:  # one by one: what is traced is slower, and more is done meanwhile
            first = self.run(os.path.join(top, f"{mode}-{role}"), f"{job}-{role}", f"{role}{10**9}=")
            if first.skip:
                return
            assert first.status == 0 and first.out == self.out, f"nobody killed: {first.report}"
            said = self.more("", first, os.path.join(top, f"{mode}-{role}"))
            assert not said, f"nobody killed: {said}"
            assert (summary.captured(first.err) or 0) > 8, f"not captured: {first.err}"
            self.stops[role] = first.stops[role]

    def environment(self, directory, job):
        return program.environment(job, self.mode, PORTUS_SAMPLE=0)

    def more(self, victims, run, directory):
        """What else is wrong with a run, or an empty text."""
        return ""

    def run(self, directory, job, events):
        """A run with events, in a new directory."""
        os.mkdir(directory)
        env = self.environment(directory, job)
        env["STEP_PRELOAD"] = env.pop("LD_PRELOAD")
        argv = [STEP, directory, str(LIMIT), events, SAVES, *self.files]
        done = subprocess.run(argv, env=env, capture_output=True, check=False, timeout=LIMIT + 30)
        return Run(directory, done)

    def look(self, directory):
        found = writer.look(directory)
        return {n: self.known.get(v, v) for n, v in found.items()}


class Run:
    """What step.c says about one."""

    def __init__(self, directory, done):
        text = self.report = done.stdout.decode() + done.stderr.decode()
        self.skip = done.returncode == 77
        self.status = next((int(n) for n in re.findall(r"^ended (-?\d+)$", text, re.M)), None)
        self.stops = {r: int(n) for r, n in re.findall(r"^stops (\w) (\d+)$", text, re.M)}
        self.fired = re.findall(r"^fired (\w) (-?\d+) (\w+)$", text, re.M)
        self.late = "late " in text
        with open(directory + ".out", "rb") as f:
            lines = f.read().splitlines(True)
        with open(directory + ".err", "rb") as f:
            self.err = f.read()
        self.out = b"".join(line for line in lines if line != b"fired\n")
        self.at = [sum(x != b"fired\n" for x in lines[:i]) for i, line in enumerate(lines) if line == b"fired\n"]
        self.said = [int(n) for n in self.out.split(b"\n") if n.isdigit()]
        self.refused = sum(map(int, re.findall(rb"not captured:.*?\b(\d+) files? no agent", self.err)))


def wrong(way, events, run, directory):
    """What is wrong with it, or an empty text."""
    victims = "".join(re.findall(r"[=-]([pkwrd]+)", events)[:len(run.fired)])
    if run.late or run.status is None:
        return "no end"
    if run.status != 0 and not (run.status == -9 and "p" in victims):
        return f"ended {run.status}"
    if summary.without(run.err):
        return f"it says {summary.without(run.err)}"
    disk = way.look(directory)
    lost = {"p", "k"} <= set(victims)  # what was captured and not drained
    if run.status == 0:
        if run.out != way.out:
            return "other output"
        unheard = "~" in events and any(f[:2] == ("k", BIND) for f in run.fired)
        if run.refused > REFUSED * len(run.fired) and not unheard:
            return f"no agent for {run.refused} files"
        least = len(way.ops)
    else:
        least = 1 + max(run.said, default=-1)
        if lost:
            least = 1 + max((n for n in run.said if way.ops[n][0] in PUBLISHES
                             or way.mode == "drained" and way.ops[n][0] in ("close", "fclose")), default=-1)
    if writer.passed_through(way.ops, way.states, disk, least) is None:
        sizes = {n: v is not None and len(v) for n, v in sorted(disk.items())}
        return f"no state of a plain run from operation {least} on: {sizes}"
    if not lost:
        for name, entry in state.snapshot(directory).items():
            if entry.blocks > entry.size + state.SLACK:
                return f"{name} has room for {entry.blocks} bytes, of which it uses {entry.size}"
    return way.more(victims, run, directory)


def stop(chance, way, i=0, count=1):
    """A role, and a stop in the i-th of count equal parts of all of its stops; and how exactly."""
    role = chance.choices(way.roles, way.chances)[0]
    number = 1 + int((i + chance.random()) * way.stops[role] / count)
    exact = chance.random()
    if exact < 0.15:
        return f"{role}{number}.{chance.randrange(1, 400)}"
    return f"{role}{number}!{chance.randrange(1, 300)}" if exact < 0.3 else f"{role}{number}"


def plan(ways, kinds, total, seed):
    """[(way, kind, events)]: about total kills, spread evenly over all stops."""
    chance, trials = random.Random(seed), []
    more = dict((way[0], way[2]) for way in WAYS)
    weight = sum(n for _, n in kinds.values()) * sum(more.get(w.mode, 1) for w in ways)
    for name, (forms, often) in kinds.items():
        for way in ways:
            count = max(len(forms), total * often * more.get(way.mode, 1) // weight)
            for i in range(count):
                second = f"{chance.choice(way.roles)}{chance.randrange(1, chance.choice((10, 60, 400)))}"
                events = forms[i % len(forms)].format(stop(chance, way, i, count), second, chance.randrange(1, 3000),
                                                      chance.randrange(1, 60))
                trials.append((way, name, events))
    chance.shuffle(trials)
    return trials


class Sweep:
    """Many trials below a directory; counts what came of them."""

    def __init__(self, top, job, modes=None, ways=None):
        self.top, self.job, self.number = top, job, itertools.count()
        self.done, self.idle = collections.Counter(), 0
        self.calls, self.places = {r: set() for r in "pkwd"}, {r: set() for r in "pkwd"}
        self.failed = []
        self.ways = ways or [Way(mode, large, top, job) for mode, large, _ in WAYS if modes is None or mode in modes]
        self.skip = not all(way.stops for way in self.ways)

    def one(self, trial):
        way, kind, events = trial
        number = next(self.number)
        directory, job = os.path.join(self.top, f"t{number}"), f"{self.job}-{number}"
        run = way.run(directory, job, events)
        said = wrong(way, events, run, directory)
        if said:
            self.failed.append(f"--mode {way.mode} --events '{events}', kept: {directory}: {said}\n{run.report}")
            print("FAILED " + self.failed[-1], flush=True)
            return
        if len(run.fired) == events.count(",") + 1:
            self.done[kind] += 1
        else:
            self.idle += 1  # the program was faster
        for role, call, _ in run.fired:
            self.calls[role].add(int(call))
        if run.fired:
            role, place = re.match(r"(\w)(\d+)", events).groups()
            self.places[role].add((way.mode, place))
        shutil.rmtree(directory)
        os.unlink(directory + ".out")
        os.unlink(directory + ".err")

    def go(self, trials, jobs, seconds):
        """Does them, some at once, until the time is over. Returns how many failed."""
        end = [time.monotonic() + seconds]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                list(pool.map(lambda t: self.one(t) if time.monotonic() < end[0] else None, trials))
            except KeyboardInterrupt:
                end[0] = 0
        return len(self.failed)

    def table(self):
        names = {"p": "program", "k": "keeper", "w": "worker", "d": "store"}
        yield f"{sum(self.done.values())} kills, {len(self.failed)} failed; {self.idle} came after the end"
        for kind, count in sorted(self.done.items()):
            yield f"  {kind}: {count}"
        for role in self.ways[0].roles:
            name = names[role]
            every = sum(way.stops[role] for way in self.ways)
            yield f"  at {len(self.places[role])} of {every} stops of the {name}, {len(self.calls[role])} system calls"

    def clear(self):
        shutil.rmtree(self.top)
