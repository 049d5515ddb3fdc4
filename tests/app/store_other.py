# SPDX-License-Identifier: BSD-3-Clause
# Two programs of one job want two stores: they have one agent, as one order is kept among them.
# Right: the second one is told, once, that its checkpoints go to the first one's; with a PORTUS_JOB of its own it has its own;
# with the same store, or none, nothing is said.
# run: script
import os
import signal
import subprocess

from lib import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
D = trial.fresh()
POOLS = [os.path.join(trial.TOP, name) for name in ("one.pool", "other.pool")]


def save(name, job=trial.JOB, **more):
    env = program.environment(job, "all", **more)
    out = program.run(["dd", "if=/dev/zero", f"of={name}", "bs=1M", "count=2", "status=none"], D, env)
    trial.expect(out.status == 0, out.how(), out)
    return out.err.decode().count("is not used")


def kept(pool, name):
    done = subprocess.run([CTL, "versions", "--store", pool, os.path.join(D, name)], capture_output=True, check=False)
    return done.returncode == 0


try:
    for pool in POOLS:
        subprocess.run([CTL, "pool", "create", pool, "16M"], check=True, stdout=subprocess.DEVNULL)
    trial.expect(save("a.ckpt", PORTUS_STORE=POOLS[0]) == 0, "the first program is told of another store")
    trial.expect(save("b.ckpt", PORTUS_STORE=POOLS[0]) == 0, "one with the same store is told of another one")
    trial.expect(save("c.ckpt") == 0, "one without a store is told of one")
    trial.expect(save("d.ckpt", PORTUS_STORE=POOLS[1]) == 1, "one with another store is not told that it is not used")
    trial.expect(save("e.ckpt", trial.JOB + "-other", PORTUS_STORE=POOLS[1]) == 0, "one with its own agent is told")
    for pool, name in ((POOLS[0], "a.ckpt"), (POOLS[0], "b.ckpt"), (POOLS[0], "d.ckpt"), (POOLS[1], "e.ckpt")):
        trial.expect(agents.until(lambda p=pool, n=name: kept(p, n), 15, 0.1), f"{name} is not in {pool}")
finally:
    agents.kill(trial.JOB + "-other", signal.SIGTERM)
    for pool in POOLS:
        for pid in agents.stores(pool):
            os.kill(pid, signal.SIGTERM)
