# SPDX-License-Identifier: BSD-3-Clause
# portusd, keeper, worker and program are killed at counted system calls while checkpoints are kept in a
# pool, copied, committed, renamed, cancelled, evicted, and while portusd opens it or ends: other ones each
# time (SEED), for a minute. More: make check-kills.
# Right: the saves are as ever; the pool holds nothing but what files were when they were closed, all that
# the agent was told of, counts nothing taken that is free; and the next checkpoints are kept.
# run: script timeout=400
import os
import time

from lib import kills, store_kills, trial

seed = int(os.environ.get("SEED", time.time()))
print(f"seed {seed}", flush=True)
sweep = store_kills.sweep(trial.TOP, trial.JOB)
if sweep.skip:
    trial.skip("ptrace is not allowed here")
failed = sweep.go(kills.plan(sweep.ways, store_kills.KINDS, 300, seed), 2, 55)
print("\n".join(sweep.table()))
trial.expect(not failed, f"{failed} of seed {seed} went wrong")
trial.expect(sum(sweep.done.values()) >= 15, "too few kills")
