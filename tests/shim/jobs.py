# SPDX-License-Identifier: BSD-3-Clause
# Two jobs, so two agents, and processes without the shim, take turns on the same files.
# Right: each waits for the other's bytes, and the last to write wins.
# run: script timeout=120
import sys

from lib import agents, program, trial

TURN = """
import hashlib, os, sys
name, seed = sys.argv[1], int(sys.argv[2])
print(hashlib.sha256(open(name, "rb").read()).hexdigest() if os.path.exists(name) else None)
data = bytes([seed]) * (8 << 20)
fd = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
os.write(fd, data); os.write(fd, b"end"); os.pwrite(fd, b"begin", 0)
os.close(fd)
if seed % 3 == 0: os.kill(os.getpid(), 9)
os.replace(name, name + ".new"); os.replace(name + ".new", name)
"""
second = trial.JOB + "-second"
outcomes = {}
try:
    for shimmed in (False, True):
        d = trial.fresh()
        said = []
        for seed in range(1, 22):
            job = (trial.JOB, second)[seed % 2]
            mode = "all" if shimmed and seed % 5 else None
            out = program.run([sys.executable, "-c", TURN, "x.ckpt", str(seed)], d, program.environment(job, mode), 60)
            said.append((out.status, out.out))
        outcomes[shimmed] = said, d
    trial.expect(outcomes[False][0] == outcomes[True][0], f"{outcomes[True][0]}, plain {outcomes[False][0]}")
    trial.same(outcomes[False][1], outcomes[True][1], "two jobs")
    trial.expect(agents.pids(trial.JOB) and agents.pids(second), "two jobs have not two agents")
finally:
    agents.until(lambda: not agents.held(second, trial.TOP), 10)
    agents.kill(second)
