# SPDX-License-Identifier: BSD-3-Clause
"""SIGKILL, SIGSTOP or SIGTERM of portusd, the carrier or the worker, at instants of a save to a store on another machine."""
import os
import signal
import sys
import time

from . import agents, far, program, trial

SIZE, SAVE_S, AGAIN_S = 24, 20, 40
with open("/proc/sys/fs/lease-break-time", encoding="ascii") as lease:
    LEASE_S = int(lease.read())
# Writes a file of SIZE MiB of one letter and waits a little, as training does; twice onto the same path.
SAVE = """
import sys, time
for letter in sys.argv[2]:
    with open(sys.argv[1], "wb", 0) as f:
        for _ in range(int(sys.argv[3])): f.write(letter.encode() * (1 << 20))
    time.sleep(0.05)
"""


def victims(store, who):
    if who == "portusd":
        return [store.process.pid]
    if who == "carrier":
        return agents.stores(store.name, "portus-carrier")
    worker = agents.pair(trial.JOB)[1]
    return [worker] if worker else []


def letters(path):
    """The one letter that a file is of, and how many MiB."""
    with open(path, "rb") as f:
        data = f.read()
    return data[:1], len(data) >> 20, data == data[:1] * len(data)


def one(store, work, who, number, delay, case, stopped=0.5):
    path = os.path.join(work, f"{case}.pt")
    pair = bytes([97 + case % 20, 98 + case % 20]).decode()
    began = time.monotonic()
    process = program.start([sys.executable, "-c", SAVE, path, pair, str(SIZE)], work,
                            store.environment(PORTUS_RING_SIZE="16M" if case % 2 else "64M"))
    time.sleep(delay)
    hit = victims(store, who)
    for pid in hit:
        os.kill(pid, number)
    # A worker that is stopped while it holds a read lease, as the file is being kept, keeps the next one who
    # opens it for writing as long as the kernel allows.
    bound = SAVE_S + LEASE_S * (who == "worker" and number == signal.SIGSTOP)
    out = program.finish(process, bound)
    seconds = time.monotonic() - began
    what = f"{signal.Signals(number).name} of {who} ({len(hit)}) after {delay:.2f} s"
    trial.expect(out.status == 0 and not out.late, f"{what}: {out.how()} after {seconds:.1f} s", out)
    trial.expect(letters(path) == (pair[1:].encode(), SIZE, True), f"{what}: the file is not what was saved")
    if number == signal.SIGSTOP:
        time.sleep(stopped)
        for pid in hit:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
    if who == "portusd" and number != signal.SIGSTOP:
        store.process.wait(20)
        store.start()
    return what, seconds


def again(store, work, what, case, bound=AGAIN_S):
    """All is well: a save is kept, if need be one of another agent, as this one may have given up for a minute."""
    path, began = os.path.join(work, f"after{case}.pt"), time.monotonic()
    while time.monotonic() - began < bound:
        out = program.run([sys.executable, "-c", SAVE, path, "z", "3"], work, store.environment(), SAVE_S)
        trial.expect(out.status == 0, f"{what}: the next save: {out.how()}", out)
        if agents.until(lambda: store.versions(path), 2):
            return time.monotonic() - began
        agents.kill(trial.JOB)
    trial.fail(f"{what}: nothing is kept {bound} s later: {store.said()[-2000:]}")
    return 0


def run(scheme, stops):
    """Each at three instants; then SIGSTOP of portusd for those seconds, with a ring that is used again meanwhile."""
    store = far.Store(size="1G", scheme=scheme)
    try:
        work = trial.fresh()
        again(store, work, "the beginning", 0)
        case, slowest, latest = 1, 0, 0
        faults = [(who, number, delay, 0.5) for who in ("portusd", "carrier", "worker")
                  for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)[:2 if who == "worker" else 3]
                  for delay in (0.05, 0.12, 0.3)]
        # For so long that the carrier gives it up, and the agent reuses what it was reading.
        faults += [("portusd", signal.SIGSTOP, 0.1, seconds) for seconds in stops]
        for who, number, delay, stopped in faults:
            said, took = one(store, work, who, number, delay, case, stopped)
            back = again(store, work, said, case)
            slowest, latest = max(slowest, took), max(latest, back)
            print(f"{said}, {stopped} s: saved in {took:.1f} s, kept again after {back:.1f} s", flush=True)
            case += 1
        check(store, work)
        print(f"{case} times; slowest save {slowest:.1f} s, kept again after {latest:.1f} s at most")
    finally:
        agents.kill(trial.JOB)
        if store.process.poll() is None:
            store.end(signal.SIGKILL)


def check(store, work, *sizes):
    """Each version that the store has is one save's, of one of these sizes, too."""
    out = os.path.join(trial.TOP, "out")
    store.ctl("verify", work)
    for version in store.versions(work):
        store.ctl("restore", "--force", "--to", out, version["path"], "--version", str(version["commit"]))
        letter, size, pure = letters(out + version["path"])
        trial.expect(pure and size in (SIZE, 3, *sizes), f"{version}: mixed, or short: {letter} {size}")
