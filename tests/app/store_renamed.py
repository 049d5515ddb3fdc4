# SPDX-License-Identifier: BSD-3-Clause
# A rename that portusd was told of and has not heard: it is stopped, then killed, as the file gets another name.
# Right: the next portusd is told again, the versions have the new name, and nothing is held any more.
# run: script timeout=120
import os
import signal
import subprocess
import sys

from lib import agents, program, trial, versions

SAVE = """
import os, sys
open("a.pt", "wb").write(os.urandom(8 << 20))
print("saved", flush=True)
for i, line in enumerate(sys.stdin):
    os.rename(*line.split())
    print("renamed", flush=True)
"""
D = trial.fresh()
POOL = os.path.join(trial.fresh(), "pool")
subprocess.run([os.path.join(program.BUILD, "portusctl"), "pool", "create", POOL, "128M"], stdout=subprocess.DEVNULL, check=True)


def known(path):
    return any(v["path"] == os.path.join(D, path) for v in versions.newest(POOL))


process = program.start([sys.executable, "-c", SAVE], D, program.environment(trial.JOB, "default", PORTUS_STORE=POOL, PORTUS_SAMPLE="0"),
                        stdin=subprocess.PIPE)
try:
    trial.expect(process.stdout.readline() == b"saved\n" and agents.until(lambda: known("a.pt"), 20, 0.1), "it is not kept")
    for one, other in (("a.pt", "b.pt"), ("b.pt", "c.pt")):
        pid = agents.stores(POOL)[0]
        os.kill(pid, signal.SIGSTOP)
        process.stdin.write(f"{one} {other}\n".encode())
        process.stdin.flush()
        trial.expect(process.stdout.readline() == b"renamed\n", "the rename waits for portusd")
        trial.expect(not agents.until(lambda: known(other), 1), "a stopped portusd has heard it")
        os.kill(pid, signal.SIGKILL)
        trial.expect(agents.until(lambda: known(other) and not known(one), 20, 0.1), f"{other} is not known after portusd was killed")
finally:
    program.finish(process, 30)
    for pid in agents.stores(POOL):
        os.kill(pid, signal.SIGTERM)
