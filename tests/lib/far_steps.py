# SPDX-License-Identifier: BSD-3-Clause
"""SIGKILL and SIGSTOP of either side at each step of what an agent's carrier and portusd say to each other, and of the READs.

One of the two stops itself at the step (tests/verbs/steps.c, double.c); what is done to it is done there and nowhere else.
"""
import collections
import os
import shutil
import signal
import sys
import time

from . import double  # first: it says which build is meant
from . import agents, far, far_kills, program, trial

CARRIER, STORE = "portus-carrier", "portusd"
HELLO, WELCOME, FILE, DONE, RING, DRAFT, PULL, PULLED, FETCH, DATA, CHECK, STATE, WANT, STEP, GONE, LEFT = \
    1, 2, 64, 65, 71, 72, 73, 74, 84, 85, 86, 87, 90, 91, 92, 93


def told(op, by, count=1):
    """Before it is said, and when it has come."""
    return (by, "says", op, count), (STORE if by == CARRIER else CARRIER, "hears", op, count)


# The file before has been kept by then: its messages are the first of their kind.
STEPS = {
    "handshake": tuple((who, what, 0, 1) for who in (CARRIER, STORE) for what in ("greets", "greeted")),
    "hello": told(HELLO, CARRIER),
    "welcome": told(WELCOME, STORE),
    "put: ring": told(RING, CARRIER),
    "put: file's name": told(DRAFT, CARRIER),
    "pull: told of records": told(PULL, CARRIER),
    "pull: told that it has them": told(PULLED, STORE),
    "commit: file is whole": told(FILE, CARRIER, 2),
    "commit: lease asked for": told(CHECK, STORE, 2),
    "commit: lease is held": told(STATE, CARRIER, 2),
    "done": (*told(DONE, STORE, 2), (STORE, "said", DONE, 2)),
}
ONLY = {
    "tcp": {"pull: bytes asked for": told(FETCH, STORE, 5), "pull: bytes": told(DATA, CARRIER, 5)},
    "rdma": {
        "link": ((CARRIER, "dial", 0, 1), (STORE, "accept", 0, 1)),
        "pull: memory asked for": told(WANT, STORE, 4),
        "pull: memory is open": told(STEP, CARRIER, 4),
        "pull: READs": ((STORE, "read", 0, 5), (STORE, "has-read", 0, 5), (STORE, "read", 0, 20), (STORE, "has-read", 0, 20)),
        "ring is taken back": (told(GONE, CARRIER)[0], *told(LEFT, STORE)),
    },
}
# A small file finds the store, and is waited for; the one that counts is written twice onto one path.
SAVE = """
import os, sys, time
def save(path, letter, size):
    with open(path, "wb", 0) as f:
        for _ in range(size): f.write(letter.encode() * (1 << 20))
save(sys.argv[1] + ".first", sys.argv[2][1], 3)
for _ in range(60):
    if os.path.exists(sys.argv[4]) and "the store has it" in open(sys.argv[4]).read(): break
    time.sleep(0.05)
began = time.monotonic()
for letter in sys.argv[2]:
    save(sys.argv[1], letter, int(sys.argv[3]))
    time.sleep(0.05)
print(time.monotonic() - began)
"""
SHORT, LONG = 1, 18  # seconds of a stop: the second one is longer than anybody waits


class Steps:
    """A store whose two ends stop where they are told to."""

    def __init__(self, scheme):
        self.file = os.path.join(trial.TOP, "steps")
        self.tell("")
        preload = os.path.join(double.BUILT, "tests/verbs/steps.so")
        real = os.path.join(program.BUILD, "real")
        os.makedirs(real, exist_ok=True)
        shutil.move(os.path.join(program.BUILD, CARRIER), real)
        shutil.copy(os.path.join(program.BUILD, "portus_rdma.so"), real)
        with open(os.path.join(program.BUILD, CARRIER), "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\nexport LD_PRELOAD={preload} STEPS={self.file}\nexec {real}/{CARRIER} "$@"\n')
        os.chmod(os.path.join(program.BUILD, CARRIER), 0o755)
        self.store = far.Store(size="1G", scheme=scheme, by=("env", f"LD_PRELOAD={preload}", f"STEPS={self.file}"))
        self.work = trial.fresh()
        self.case, self.tries = 0, 0
        self.rows = collections.defaultdict(lambda: [0, 0.0, 0.0])

    def tell(self, text):
        with open(self.file, "w", encoding="ascii") as f:
            f.write(text)

    def stopped(self):
        with open(self.file, encoding="ascii") as f:
            words = f.read().split()
        return int(words[1]) if words[:1] == ["stopped"] else 0

    def until_there(self, point, path, pair):
        """(process, pid that has stopped), 0: the save was over before. A store that is slow is given no time to pull, for one."""
        log = os.path.join(trial.TOP, "log")
        agents.kill(trial.JOB)
        if os.path.exists(log):
            os.unlink(log)
        agents.until(lambda: not agents.stores(self.store.name, CARRIER), 5)
        self.tell(" ".join(map(str, point)) + "\n")
        self.tries += 1
        process = program.start([sys.executable, "-c", SAVE, path, pair, str(far_kills.SIZE), log], self.work,
                                self.store.environment(PORTUS_LOG=f"debug:{log}", PORTUS_RING_SIZE="16M" if self.tries % 2 else "64M"))
        agents.until(lambda: self.stopped() or process.poll() is not None, 15)
        return process, self.stopped() or agents.until(self.stopped, 3)

    def one(self, step, point, fault):
        store, path, pid = self.store, os.path.join(self.work, f"{self.case}.pt"), 0
        pair = bytes([97 + self.case % 20, 98 + self.case % 20]).decode()
        what = f"{fault} at {step}: {' '.join(map(str, point))}"
        for _ in range(6):
            process, pid = self.until_there(point, path, pair)
            if pid:
                break
            trial.expect(program.finish(process, far_kills.SAVE_S).status == 0, f"{what}: a save without it")
        trial.expect(pid, f"{what}: nobody comes there: {store.said()[-2000:]}")
        self.hit(fault, pid, process)
        out = program.finish(process, far_kills.SAVE_S)
        took = 0.0
        if fault != "loss of the node":
            trial.expect(out.status == 0 and not out.late, f"{what}: {out.how()}", out)
            took = float(out.out)
            trial.expect(far_kills.letters(path) == (pair[1:].encode(), far_kills.SIZE, True), f"{what}: the file is not what was saved")
        if fault.startswith("SIGSTOP"):
            time.sleep(max(0, (LONG if "18" in fault else SHORT) - (time.monotonic() - self.since)))
            agents.kill_one(pid, signal.SIGCONT)
        if store.process.poll() is not None:
            store.start()
        back = far_kills.again(store, self.work, what, f"-{self.case}")
        row = self.rows[step, fault]
        row[:] = row[0] + 1, max(row[1], took), max(row[2], back)
        print(f"{what}: saved in {took:.1f} s, kept again after {back:.1f} s", flush=True)
        self.case += 1

    def hit(self, fault, pid, process):
        """Does it to who has stopped; SIGSTOP lasts until the save has ended, or longer."""
        self.since = time.monotonic()
        if fault == "SIGKILL":
            os.kill(pid, signal.SIGKILL)
            if pid == self.store.process.pid:
                self.store.process.wait()
        elif not fault.startswith("SIGSTOP"):
            if fault == "loss of the node" and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            agents.kill(trial.JOB)
            for carrier in agents.stores(self.store.name, CARRIER) if fault == "loss of the node" else ():
                agents.kill_one(carrier)
            agents.kill_one(pid, signal.SIGCONT)

    def table(self):
        for (step, fault), (tries, took, back) in self.rows.items():
            print(f"| {step} | {fault} | {tries} | {took:.1f} | {back:.1f} |")
        for fault in FAULTS:
            of = [row for (_, name), row in self.rows.items() if name == fault]
            if of:
                print(f"| all | {fault} | {sum(row[0] for row in of)} | {max(row[1] for row in of):.1f} | {max(row[2] for row in of):.1f} |")


FAULTS = ("SIGKILL", "SIGSTOP, 1 s", "SIGSTOP, 18 s", "SIGKILL of the agent", "loss of the node")


def run(scheme):
    steps = Steps(scheme)
    try:
        for name, points in {**STEPS, **ONLY[scheme]}.items():
            for point in points:
                for fault in FAULTS:
                    # The long stop where the store is that stops, and its client gives up; the agent and all of its machine
                    # at one of a step's points.
                    of = next(p for p in points if p[0] == STORE or "18" not in fault)
                    if fault not in ("SIGKILL", "SIGSTOP, 1 s") and point != of:
                        continue
                    if os.environ.get("STEP", name) == name and os.environ.get("FAULT", fault) == fault:
                        steps.one(name, point, fault)
        far_kills.check(steps.store, steps.work)
        steps.table()
    finally:
        agents.kill(trial.JOB)
        for pid in agents.stores(steps.store.name, CARRIER):
            agents.kill_one(pid)
        if steps.store.process.poll() is None:
            steps.store.end(signal.SIGKILL)
