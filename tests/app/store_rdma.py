# SPDX-License-Identifier: BSD-3-Clause
# A store on another machine by rdma://, with a double of the plug-in that speaks verbs (tests/verbs; what a device
# does: vm/rdma_*). Right: each version that is kept has the bytes of a save, whatever happens to the link:
# pulled out of the ring or read from the file; a link that breaks; and without the plug-in all as without a store.
# run: script timeout=240
import os
import random
import shutil
import signal
import subprocess
import sys

from lib import double  # first: it says which build is meant
from lib import agents, far, program, trial

told = os.path.join(trial.TOP, "told")
os.environ["VERBS_DOUBLE"] = told
seed = os.environ.get("SEED", str(os.getpid()))
print("seed", seed)
chance = random.Random(seed)
written = {}  # of each path: digests of what was saved there


def tell(text):
    with open(told, "w", encoding="ascii") as f:
        f.write(text)


def sources(*sizes):
    """Files of random bytes."""
    names = []
    for size in sizes:
        names.append(os.path.join(trial.fresh(), "source"))
        with open(names[-1], "wb") as f:
            f.write(chance.randbytes(size))
    return names


def start(pairs, wait=0.0, **more):
    """A program that saves each (source, path) in turn."""
    text = f"; sleep {wait}; ".join(f"dd if={source} of={path} bs=1M" for source, path in pairs)
    return subprocess.Popen(["sh", "-c", text], env=store.environment(VERBS_DOUBLE=told, **more), stderr=subprocess.DEVNULL)


def saved(process, pairs):
    trial.expect(process.wait(60) == 0, "the program failed")
    for source, path in pairs:
        written.setdefault(path, []).append(far.digest(source))
        trial.expect(far.digest(path) == far.digest(source), f"{path} has other bytes")


def save(*files, wait=0.0, **more):
    pairs = list(zip(sources(*[size for _, size in files]), [path for path, _ in files]))
    saved(start(pairs, wait, **more), pairs)


def check(least):
    """All versions of all paths have bytes that were saved there, and the newest is the last save's."""
    for path, digests in written.items():
        versions = store.versions(path)
        trial.expect(len(versions) >= least, f"{path}: {versions}: {store.said()[-2000:]}")
        for version in versions:
            to = trial.fresh()
            store.ctl("restore", "--to", to, "--version", str(version["commit"]), path, VERBS_DOUBLE=told)
            trial.expect(far.digest(to + path) in digests, f"{path}: commit {version['commit']} has bytes of no save")
            shutil.rmtree(to)


tell("")
node = trial.fresh()
store = far.Store(scheme="rdma")
try:
    one, two, three = (os.path.join(node, name) for name in ("one.pt", "two.pt", "three.pt"))
    save((one, 3000001), (two, 12 << 20), wait=1.5)
    store.kept(one, 1)
    store.kept(two, 1)
    trial.expect(f": {12 << 20} bytes, 0 of them from the file" in store.said(), f"not out of the ring: {store.said()}")
    check(1)

    tell("break")
    save((one, 9 << 20), (three, 7 << 20), wait=1.5)
    for path, count in ((one, 2), (three, 1)):
        store.kept(path, count)
    store.says("RDMA link 2 is there")
    check(1)

    store.end()

    # Without the plug-in: a clear refusal, and all as usual without a store.
    os.unlink(os.path.join(double.HERE, "portus_rdma.so"))
    agents.kill(trial.JOB)
    out = program.run(["dd", "if=/dev/zero", f"of={node}/four.pt", "bs=1M", "count=4"], node, store.environment(), 30)
    trial.expect(out.status == 0, out.how(), out)
finally:
    agents.kill(trial.JOB)
    if store.process.poll() is None:
        store.end(signal.SIGKILL)
sys.exit(0)
