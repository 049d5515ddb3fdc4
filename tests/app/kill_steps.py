# SPDX-License-Identifier: BSD-3-Clause
# Program, keeper and worker are killed at counted system calls, one, two or all, once or twice, or
# the agent is stopped: other ones each time (SEED), for a minute. All: make check-kills.
# Right: the program goes on without its agent, the agent without its program; killed together,
# what stands on disk is a state that the plain run passes through.
# run: script timeout=400
import os
import time

from lib import kills, trial

seed = int(os.environ.get("SEED", time.time()))
print(f"seed {seed}", flush=True)
sweep = kills.Sweep(trial.TOP, trial.JOB)
if sweep.skip:
    trial.skip("ptrace is not allowed here")
failed = sweep.go(kills.plan(sweep.ways, kills.KINDS, 1000, seed), 2, 40)
failed = sweep.go(kills.plan(sweep.ways, kills.STOPS, 30, seed), 4, 20)
print("\n".join(sweep.table()))
trial.expect(not failed, f"{failed} of seed {seed} went wrong")
trial.expect(sum(sweep.done.values()) >= 50, "too few kills")
