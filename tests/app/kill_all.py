# SPDX-License-Identifier: BSD-3-Clause
# Program, keeper and worker are killed together, at 50 instants.
# Right: what stands on disk is a state that the plain run passes through: a file short, never
# with zeros in it; no pointer before what it names; the old step there until the new is whole.
# run: script timeout=400
import os
import random
import signal
import time

from lib import agents, program, trial, writer

ops = writer.program(4, 5 << 20)
states = writer.states(ops)
d = trial.fresh()
p = trial.writer(ops, d)
trial.until_line(p, "ready")
begin = time.monotonic()
out = program.finish(p, 60)
length = time.monotonic() - begin
trial.expect(out.status == 0, "without a kill: " + out.how(), out)
ends = set()
for seed in range(50):
    chance = random.Random(seed)
    d = trial.fresh()
    p = trial.writer(ops, d, "all" if seed % 2 else "default", PORTUS_ORDER="strict")
    trial.until_line(p, "ready")
    time.sleep(chance.random() * length)
    everyone = [p.pid, *agents.pids(trial.JOB)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        chance.shuffle(everyone)
        for pid in everyone:
            agents.kill_one(pid, number)
    out = program.finish(p, 20)
    agents.kill(trial.JOB)  # one that was just being started
    trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 10), "the agent lives on")
    disk = writer.look(d)
    k = writer.passed_through(ops, states, disk)
    said = max((int(n) for n in out.out.split() if n.isdigit()), default=-1)
    sizes = {n: v is not None and len(v) for n, v in sorted(disk.items())}
    trial.expect(k is not None, f"seed {seed}: no state of a plain run: {sizes}; the program had said "
                 f"{said}, then comes {ops[said + 1] if said + 1 < len(ops) else None}")
    ends.add(k)
    os.system(f"rm -rf {d}")
print(f"50 kills, {len(ends)} different ends")
trial.expect(len(ends) >= 5, "all kills came too early or too late")
