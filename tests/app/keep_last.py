# SPDX-License-Identifier: BSD-3-Clause
# A program saves a hundred times (1,000 by make soak) and keeps the last three; with a store, too.
# Right: what it, its agent and portusd take of memory, shared memory, descriptors, mappings, of the disk and of inodes that
# have no name any more is the same after the last save as after the first quarter.
# run: script timeout=600
import os
import subprocess

from lib import agents, program, rotate, trial

SAVES = 1000 if os.environ.get("CHECK") == "soak" else 60
KEEP = 3
# KiB, or as many: what may come on top by chance, as allocators and the kernel round.
ROOM = {"memory": 2048, "shared": 16384, "descriptors": 0, "orphans": 0, "mappings": 12, "files": 0, "disk": 64}


def flat(what, **more):
    d, env = trial.fresh(), program.environment(trial.JOB, "all", **more)
    argv = ["python3", rotate.__file__, str(SAVES), str(KEEP), f"{SAVES // 4},{SAVES}"]
    p = program.start(argv, d, env, stdin=subprocess.PIPE)
    seen = {}
    for line in p.stdout:
        if (step := int(line)) in (SAVES // 4, SAVES):
            # At rest: what was captured is drained, what is kept is committed.
            agents.until(lambda: not agents.held(trial.JOB, d), 10)
            pids = [p.pid, *agents.pids(trial.JOB), *(agents.stores(more["PORTUS_STORE"]) if more else [])]
            seen[step] = rotate.takes(pids, d)
            p.stdin.write(b"\n"), p.stdin.flush()
    out = program.finish(p, 60)
    trial.expect(out.status == 0, f"{what}: {out.how()}", out)
    before, after = seen[SAVES // 4], seen[SAVES]
    print(f"{what}: after {SAVES // 4}: {before}; after {SAVES}: {after}", flush=True)
    grown = {k: (before[k], after[k]) for k in before if after[k] > before[k] + ROOM[k]}
    trial.expect(not grown, f"{what}: grows: {grown}", out)
    trial.expect(after["orphans"] == 0, f"{what}: files without a name are kept", out)
    trial.expect(after["files"] == KEEP + 1, f"{what}: {sorted(os.listdir(d))}", out)


flat("alone")
agents.kill(trial.JOB)
pool = f"{trial.TOP}/pool"
subprocess.run([f"{program.BUILD}/portusctl", "pool", "create", pool, "64M"], check=True, stdout=subprocess.DEVNULL)
flat("with a store", PORTUS_STORE=pool)
for pid in agents.stores(pool):
    agents.kill_one(pid)
