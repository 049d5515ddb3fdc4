# SPDX-License-Identifier: BSD-3-Clause
"""Tests that this project did not write, run plainly and with every file captured.

A suite (tests/world) is a number of cases, a case a number of results, each with a name.
What the plain run says the run with the shim must say. Where they differ the plain run is
made again: what it says then counts as well. Other differences are faults, but those of
known.txt. Of each suite `make check` runs a part, `make check-world` the whole.
"""
import fnmatch
import os
import shutil

from . import agents, program, state, trial

WHOLE = os.environ.get("WORLD") == "all"
KNOWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "world/known.txt")
DAY = 86400
RELEASE = 15


def tools(*names):
    """Skips the suite where one of these is not there."""
    missing = [n for n in names if not shutil.which(n)]
    if missing:
        trial.skip(f"not installed: {' '.join(missing)}")


class Place:
    """The directory of one run: always of the same path, as some print it."""

    def __init__(self, mode):
        self.mode, self.path = mode, os.path.join(trial.TOP, "run")
        self.log = os.path.join(trial.TOP, "log")
        shutil.rmtree(self.path, ignore_errors=True)
        os.mkdir(self.path)
        if os.path.exists(self.log):
            os.unlink(self.log)

    def environment(self, mode=..., **more):
        """Each captured file gets a line in the log; standard error gets none."""
        mode = self.mode if mode is ... else mode
        quiet = {"PORTUS_SUMMARY": "0", "PORTUS_LOG": f"debug:{self.log}"} if mode else {}
        return program.environment(trial.JOB, mode, **quiet, **more)

    def run(self, argv, timeout, mode=..., **more):
        return program.run(argv, self.path, self.environment(mode, **more), timeout)

    def captured(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                return sum(line.rstrip().endswith("is captured") for line in f)
        except FileNotFoundError:
            return 0

    def tree(self, name=""):
        """{a name: what a process without the shim sees there}; times that were set long ago count."""
        top, found = os.path.join(self.path, name), {}
        for path, entry in state.snapshot(top).items():
            told = {k: v for k, v in vars(entry).items() if k not in ("waited", "blocks")}
            time = os.lstat(os.path.join(top, path)).st_mtime
            if time < os.stat(trial.TOP).st_mtime - 1000 * DAY:
                told["time"] = time
            found[path] = told
        return found


class Suite:
    def __init__(self, name):
        self.name, self.faults, self.seen = name, [], set()
        self.counts = dict.fromkeys(("cases", "results", "captured", "unsteady", "known"), 0)
        with open(KNOWN, encoding="utf-8") as f:
            lines = [line.split(None, 1) for line in f if line.strip() and not line.startswith("#")]
        self.known = [text.strip() for suite, text in lines if suite == name]

    def case(self, name, once):
        """Compares one; once(place) gives {a result's name: what came out}."""
        plain, _ = self.once(once, None)
        other, captured = self.once(once, "all")
        differ = [n for n in plain.keys() | other.keys() if plain.get(n) != other.get(n)]
        if WHOLE or differ:
            again, _ = self.once(once, None)
            unsteady = {n for n in plain.keys() | again.keys() if plain.get(n) != again.get(n)}
            self.counts["unsteady"] += len(unsteady)
            print("".join(f"differs by itself: {n}\n" for n in sorted(unsteady)), end="")
            differ = [n for n in differ if n not in unsteady]
        self.counts["cases"] += 1
        self.counts["results"] += len(plain)
        self.counts["captured"] += captured
        print(f"{name}: {len(plain)} results, {captured} files captured", flush=True)
        for n in sorted(differ):
            self.differs(f"{name}: {n}", plain.get(n), other.get(n))

    def once(self, once, mode):
        place = Place(mode)
        found = once(place)
        if not agents.until(lambda: not agents.held(trial.JOB, place.path), RELEASE):
            found["(held)"] = agents.held(trial.JOB, place.path)
        return found, place.captured()

    def differs(self, name, plain, other):
        for pattern in self.known:
            if fnmatch.fnmatch(name, pattern):
                self.counts["known"] += 1
                return
        self.faults.append(f"{name}: {other}, without the shim {plain}")
        print("DIFFERS " + self.faults[-1], flush=True)

    def end(self, *words):
        """Says what came out; the last thing that a suite does."""
        said = ", ".join(f"{n} {word}" for word, n in self.counts.items())
        print(f"{self.name}: {said}", *words, sep="; ", flush=True)
        trial.expect(not self.faults, f"{len(self.faults)} results differ:\n" + "\n".join(self.faults[:40]))
        trial.expect(self.counts["captured"] > 0, "nothing was captured")
