# SPDX-License-Identifier: BSD-3-Clause
# The program is killed by SIGKILL at any time, right after a close too; the agent is not.
# Right: all that had been taken when it died reaches the disk, without it, and soon.
# run: script timeout=240
import os
import random
import signal
import time

from lib import agents, program, trial, writer

ops = writer.program(3)
states = writer.states(ops)
begin = time.monotonic()
d = trial.fresh()
p = trial.writer(ops, d)
out = program.finish(p, 60)
trial.expect(out.status == 0, "without a kill: " + out.how(), out)
trial.whole(ops, d, "without a kill", out)
length = time.monotonic() - begin
agent_seen = 0
for seed in range(24):
    chance = random.Random(seed)
    d = trial.fresh()
    p = trial.writer(ops, d, "all" if seed % 2 else "default")
    trial.until_line(p, "ready")
    if seed % 4 < 2:
        closes = [i for i, op in enumerate(ops) if op[0] == "close"]
        trial.until_line(p, str(chance.choice(closes)))
    else:
        time.sleep(chance.random() * length)
    os.kill(p.pid, signal.SIGKILL)
    out = program.finish(p, 20)
    taken = [int(n) for n in out.out.split() if n.isdigit()]
    agent_seen += bool(agents.pids(trial.JOB))
    trial.expect(agents.until(lambda: not agents.held(trial.JOB, d), 20), f"seed {seed}: files still held")
    disk = writer.look(d)
    least = taken[-1] + 1 if taken else 0
    trial.expect(writer.passed_through(ops, states, disk, least) is not None,
                 f"seed {seed}: killed after operation {least}; no state of a plain run from there on: "
                 f"{ {n: v is not None and len(v) for n, v in disk.items()} }")
trial.expect(agent_seen, "no agent was there at all")
print("24 kills")
