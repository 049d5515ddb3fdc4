# SPDX-License-Identifier: BSD-3-Clause
# A training job that is started again and again, saves, keeps the last three, and has its program, keeper, worker, portusd
# or all of them killed at random: for SECONDS (an hour: more saves than a week of one every ten minutes), `make soak`.
# Right: each start finds what `latest` names, whole, and of no earlier step than it had said to be saved if the agent lived;
# while it runs it is captured; in the end the directory, the agent's and portusd's memory and descriptors are as at the
# beginning, the pool is whole and what it has of the last file is that file.
# run: script by=soak timeout=90000
import os
import random
import signal
import subprocess
import time

from lib import agents, program, rotate, trial

SECONDS, SEED, KEEP = float(os.environ.get("SECONDS", 3600)), os.environ.get("SEED", str(os.getpid())), 3
CTL = f"{program.BUILD}/portusctl"
chance = random.Random(SEED)
print("seed", SEED, flush=True)
d, pool = trial.fresh(), f"{trial.TOP}/pool"
subprocess.run([CTL, "pool", "create", pool, "64M"], check=True, stdout=subprocess.DEVNULL)
ENV = program.environment(trial.JOB, "all", PORTUS_STORE=pool)


def who(what, p):
    keeper, worker = agents.pair(trial.JOB)
    return {"nobody": [], "program": [p.pid], "worker": [worker], "keeper": [keeper], "agent": [keeper, worker],
            "portusd": agents.stores(pool), "stop": [worker],
            "all": [p.pid, keeper, worker, *agents.stores(pool)]}[what]


def rest():
    """What all take when nothing is under way."""
    agents.until(lambda: not agents.held(trial.JOB, d), 20)
    return rotate.takes([*agents.pids(trial.JOB), *agents.stores(pool)], d)


end, said, runs, saves, kills, first = time.monotonic() + SECONDS, 0, 0, 0, {}, None
while time.monotonic() < end:
    what = "nobody" if first is None else chance.choice("nobody program worker keeper agent portusd stop all".split())
    count, at = chance.randrange(20, 60), chance.randrange(1, 19)
    p = program.start(["python3", rotate.__file__, str(count), str(KEEP)], d, ENV)
    for i, line in enumerate(p.stdout):
        said, saves = int(line), saves + 1
        if i == at:
            time.sleep(chance.random() * 0.2)
            pids = who(what, p)
            for pid in pids:
                agents.kill_one(pid, signal.SIGSTOP if what == "stop" else signal.SIGKILL)
            if what == "stop":
                time.sleep(chance.random() * 2)
                for pid in pids:
                    agents.kill_one(pid, signal.SIGCONT)
    out = program.finish(p, 120)
    runs, kills[what] = runs + 1, kills.get(what, 0) + 1
    killed = what in ("program", "all")
    trial.expect(not out.late and (out.status == 0 or killed and out.status == -9), f"run {runs}, {what}: {out.how()}", out)
    trial.expect(agents.until(lambda: not agents.held(trial.JOB, d), 30), f"run {runs}, {what}: files are still held", out)
    os.chdir(d)
    found = rotate.latest()
    trial.expect(found is not None, f"run {runs}, {what}: latest names what is not whole: {os.listdir(d)}", out)
    trial.expect(found >= said, f"run {runs}, {what}: {found} is the latest, {said} was said to be saved", out)
    if what == "nobody":
        now = rest()
        first = first or now
        print(f"{runs} runs, {saves} saves, kills {kills}: {now}", flush=True)
        grown = {k: (first[k], now[k]) for k, room in (("descriptors", 3), ("orphans", 0), ("memory", 8192), ("mappings", 40),
                                                       ("files", 3), ("disk", 8192)) if now[k] > first[k] + room}
        trial.expect(not grown, f"run {runs}: grows: {grown}", out)
trial.expect(first, "too short: nothing was measured")
agents.kill(trial.JOB, signal.SIGTERM)
agents.until(lambda: not agents.pids(trial.JOB) and not agents.stores(pool), 30)
checked = subprocess.run([CTL, "verify", "--store", pool], capture_output=True, text=True, check=False)
trial.expect(checked.returncode == 0, f"the pool: {checked.stdout[-1500:]}{checked.stderr[-500:]}")
print(f"{runs} runs, {saves} saves, kills {kills}; {checked.stdout.strip().splitlines()[-1:]}")
