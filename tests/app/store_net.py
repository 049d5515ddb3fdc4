# SPDX-License-Identifier: BSD-3-Clause
# A store on another machine (tcp://, in a network namespace of its own), and what goes wrong between the two in the
# middle of a save: the cable pulled for a while, packets lost, either machine's power off; a pool that is full, a
# wrong key. Right: each save ends in time (20 s), with all its bytes; every version that is kept is one save's; soon
# after all is well again the next save is kept; and who has nothing to do with it goes on.
# run: script by=check-vm timeout=900
import os
import signal
import sys
import time

from lib import net

net.enter()
from lib import agents, far, far_kills, program, trial  # noqa: E402

SAVE_S, AGAIN_S = far_kills.SAVE_S, 60
work, other, rows = trial.fresh(), trial.fresh(), []
there = net.Far()
store = far.Store(size="1G", host=net.THERE, by=there.by)


def save(path, letters, mib=far_kills.SIZE, **more):
    return program.start([sys.executable, "-c", far_kills.SAVE, path, letters, str(mib)], work, store.environment(**more))


def fault(name, tries, bad, good, after=0.0):
    """bad() in the middle of a save; good() after so many seconds, and when that has ended, at once or then."""
    slowest = latest = 0
    for number in range(tries):
        case = f"{len(rows)}-{number}"
        path = os.path.join(work, f"{case}.pt")
        began = time.monotonic()
        process = save(path, "ab", PORTUS_RING_SIZE="16M" if number % 2 else "64M")
        time.sleep((0.1, 0.3)[number % 2])
        bad()
        out = program.finish(process, SAVE_S)
        took = time.monotonic() - began
        trial.expect(out.status == 0 and not out.late, f"{name}: {out.how()} after {took:.1f} s", out)
        trial.expect(far_kills.letters(path) == (b"b", far_kills.SIZE, True), f"{name}: the file is not what was saved")
        time.sleep(max(0, began + after - time.monotonic()))
        good()
        back = far_kills.again(store, work, name, f"-{case}", AGAIN_S)
        slowest, latest = max(slowest, took), max(latest, back)
    rows.append(f"| {name} | {tries} | {slowest:.1f} | {latest:.1f} |")
    print(rows[-1], flush=True)


def power_off_store():
    there.lose(1)
    store.process.kill()
    store.process.wait()


def power_on_store():
    there.lose(0)
    store.start()


def node():
    """The save of a machine that goes off: the store lets go of what it had of it, and others are served."""
    began, missed = time.monotonic(), store.said().count("its connection is closed")
    process = save(os.path.join(work, "node.pt"), "ab", 64)
    time.sleep(0.4)
    there.forget()
    process.kill()
    agents.kill(trial.JOB)
    process.wait()
    far_kills.again(store, work, "the power of the node", "node", AGAIN_S)
    trial.expect(agents.until(lambda: store.said().count("its connection is closed") > missed, 75 - (time.monotonic() - began), 0.2),
                 f"a node without power is not missed: {store.said()[-2000:]}")
    rows.append(f"| power off of the node | 1 | | {time.monotonic() - began:.1f} |")
    print(rows[-1], flush=True)


def full():
    """What does not fit is saved, and not kept."""
    small = far.Store(size="8M", host=net.THERE, by=there.by)
    try:
        began = time.monotonic()
        out = program.run([sys.executable, "-c", far_kills.SAVE, f"{other}/large.pt", "ab", "24"], other,
                          small.environment(job=trial.JOB + "-full"), SAVE_S)
        took = time.monotonic() - began
        trial.expect(out.status == 0 and far_kills.letters(f"{other}/large.pt") == (b"b", 24, True), "a full store", out)
        began = time.monotonic()
        program.run([sys.executable, "-c", far_kills.SAVE, f"{other}/small.pt", "a", "3"], other,
                    small.environment(job=trial.JOB + "-full"), SAVE_S)
        small.kept(f"{other}/small.pt", 1)
        trial.expect(not small.versions(f"{other}/large.pt"), "more is kept than fits")
        rows.append(f"| the store is full | 1 | {took:.1f} | {time.monotonic() - began:.1f} |")
        print(rows[-1], flush=True)
    finally:
        agents.kill(trial.JOB + "-full")
        small.end()


def wrong_key():
    """Of a name that it knows."""
    store.make_key("mallory")
    with open(store.key("mallory"), encoding="ascii") as f, open(store.key("liar"), "w", encoding="ascii") as to:
        to.write(f.read().replace("mallory", "alice"))
    os.chmod(store.key("liar"), 0o600)
    job, began = trial.JOB + "-liar", time.monotonic()
    try:
        out = program.run([sys.executable, "-c", far_kills.SAVE, f"{other}/liar.pt", "ab", "24"], other,
                          store.environment(who="liar", job=job), SAVE_S)
        took = time.monotonic() - began
        trial.expect(out.status == 0 and far_kills.letters(f"{other}/liar.pt") == (b"b", 24, True), "a wrong key", out)
        store.says("does not have the key of its name")
        rows.append(f"| the key is wrong | 1 | {took:.1f} | {far_kills.again(store, work, 'a wrong key', 'key', AGAIN_S):.1f} |")
        print(rows[-1], flush=True)
    finally:
        agents.kill(job)


try:
    far_kills.again(store, work, "the beginning", "")
    for seconds in (1, 10, 100):
        fault(f"link down for {seconds} s", 2 if seconds < 100 else 1, lambda: there.cable("down"),
              lambda: there.cable("up"), seconds)
    for share in (0.05, 0.3):
        fault(f"{share:.0%} of the packets lost, as long as the save takes", 2, lambda: there.lose(share), lambda: there.lose(0))
    fault("silence for 20 s", 2, lambda: there.lose(1), lambda: there.lose(0), 20)
    fault("power off of the store", 2, power_off_store, power_on_store)
    node()
    full()
    wrong_key()
    far_kills.check(store, work, 64)
finally:
    agents.kill(trial.JOB)
    if store.process.poll() is None:
        store.end(signal.SIGKILL)
    there.end()
