# SPDX-License-Identifier: BSD-3-Clause
# The program runs in a cgroup with little memory and saves more than that; or saves, and then grows to its peak, which is
# the limit less a tenth, at once.
# Right: nobody is killed for want of memory where the plain run is not; all files are right; the ring is given back.
# run: script root timeout=240
import json
import os
import sys

from lib import agents, cgroup, program, summary, trial

LIMIT = 256 << 20
# 70 MiB are saved, and leave a ring; then 110 more are needed.
GROW = r"""
import mmap, os, sys, time
def shared():
    return int(dict(line.split()[:2] for line in open(sys.argv[1]))["shmem"])
state = memoryview(os.urandom(1 << 20) * 70)
for i in range(3):
    with open("a.ckpt", "wb", buffering=0) as f:
        f.write(b"PK\3\4")
        for at in range(0, len(state), 1 << 20):
            f.write(state[at:at + (1 << 20)])
    time.sleep(0.5)
before = shared()
more = mmap.mmap(-1, 110 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(more), 4096):
    more[at] = 1
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) << 10, before, shared())
"""
ops = []
for i in range(10):
    ops += [["open", "new.ckpt"], ["write", 24 << 20, i % 2], ["write", 24 << 20, 2], ["close"],
            ["rename", "new.ckpt", f"{i % 3}.ckpt"], ["open", f"direct{i % 2}.ckpt"], ["write", 16 << 20, i % 2], ["close"]]
with cgroup.Memory(LIMIT) as group:
    # What these are compared with wants gigabytes, which a guest has not.
    for mode in (None, "default", "all") if program.SLOW == 1 else ():
        d = trial.fresh()
        with open(d + ".json", "w", encoding="ascii") as f:
            f.write(json.dumps(ops))
        out = program.run(group.joined([*trial.WRITER, f"@{d}.json"]), d, program.environment(trial.JOB, mode), 60)
        if mode is None and out.status != 0:
            trial.skip("does not fit plainly either: " + out.how())
        trial.expect(out.status == 0, f"{mode}: {out.how()}", out)
        trial.whole(ops, d, str(mode), out)
        trial.expect(mode is None or (summary.captured(out.err) or 0) > 0 or b"no memory for a ring" in out.err,
                     "nothing was captured, and not for want of memory", out)

    agents.kill(trial.JOB)
    for mode in (None, "default", "default"):
        d = trial.fresh()
        out = program.run(group.joined([sys.executable, "-c", GROW, f"{group.path}/memory.stat"]), d,
                          program.environment(trial.JOB, mode, PORTUS_SAMPLE=0), 60)
        trial.expect(out.status == 0, f"a program that grows, {mode}: {out.how()}", out)
        now = [int(word) for word in out.out.split()]
        if mode is None:
            peak = now[0]
            group.limit(peak * 11 // 10)
        else:
            trial.expect((summary.captured(out.err) or 0) > 0, "nothing of it was captured", out)
            trial.expect(now[2] <= max(now[1] // 2, 17 << 20), f"of {now[1] >> 20} MiB of shared memory {now[2] >> 20} are kept", out)
    print(f"its peak {peak >> 20} MiB, captured {summary.captured(out.err)} files, shared memory {now[1] >> 20} MiB, then {now[2] >> 20} MiB")
    for name in ("memory.pressure", "memory.events"):
        if os.path.exists(f"{group.path}/{name}"):
            print(name, group.read(name).replace("\n", "; "))
