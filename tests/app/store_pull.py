# SPDX-License-Identifier: BSD-3-Clause
# What the store pulls out of the ring while a program saves, when the store is slow, stopped or killed, and
# when the agent's worker is: files of odd pieces, patched backwards, three at once, one after the other.
# Right: the program saves as ever and is not held up; each version that says to be a file as it stands (size
# and mtime) has its bytes; the store works again afterwards.
# run: script timeout=240
import os
import random
import re
import signal
import subprocess
import sys
import time

from lib import agents, program, trial, versions

CTL = os.path.join(program.BUILD, "portusctl")
SAVE = """
import os, random, sys, threading, time
rng = random.Random(int(sys.argv[1]))
block = os.urandom(1 << 21)
def save(name, seed):
    rng = random.Random(seed)
    f = os.open(name + ".tmp", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    os.write(f, b"head" * 100)
    for i in range(rng.randrange(4, 24)):
        start = rng.randrange(1 << 19)
        os.write(f, block[start:start + rng.choice([7, 100, 5000, 1 << 20, 1 << 20, 1 << 20])])
        if rng.random() < 0.2:
            os.pwrite(f, block[start:start + 333], rng.randrange(100000))
    os.close(f)
    os.replace(name + ".tmp", name)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    threads = [threading.Thread(target=save, args=(f"f{rng.randrange(4)}-{i}", rng.random())) for i in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    time.sleep(rng.choice([0, 0, 0.02, 0.2]))
print("saved", flush=True)
"""


cases = 0


def ctl(*arguments, status=0):
    done = subprocess.run([CTL, *arguments], capture_output=True, text=True, check=False, timeout=60)
    trial.expect(done.returncode == status, f"portusctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def job():
    """Each case has an agent of its own: one that is there keeps its store."""
    return f"{trial.JOB}-{cases}"


def kill(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def disturb_nothing(pool):
    time.sleep(0.05)


def disturb_store(pool):
    kill(agents.stores(pool), signal.SIGKILL)


def stop_store(pool):
    pids = agents.stores(pool)
    kill(pids, signal.SIGSTOP)
    time.sleep(0.3)
    kill(pids, signal.SIGCONT)


def disturb_worker(pool):
    worker = (agents.pair(job()) or (None, None))[1]
    if worker is not None:
        kill([worker], signal.SIGKILL)


def case(what, disturb, seconds=5.0, pause=0.2, **more):
    global cases
    cases += 1
    directory = trial.fresh()
    pool = os.path.join(directory, "pool")
    log = os.path.join(directory, "log")
    ctl("pool", "create", pool, "1G")
    seed = random.randrange(1 << 30)
    env = program.environment(job(), "all", PORTUS_STORE=pool, PORTUS_LOG=f"debug:{log}", **more)
    process = program.start([sys.executable, "-c", SAVE, str(seed), str(seconds)], directory, env)
    while process.poll() is None:
        disturb(pool)
        time.sleep(random.random() * pause)
    out = program.finish(process, 60)
    trial.expect(out.status == 0 and b"saved" in out.out and out.seconds < 30, f"{what}: {out.how()} (seed {seed})", out)
    # Whatever happened, the next ones are kept.
    for _ in range(2):
        out = program.run([sys.executable, "-c", SAVE, str(seed), "0.5"], directory, env, 60)
        trial.expect(out.status == 0, f"{what}, afterwards: {out.how()}", out)
        time.sleep(0.5)
    same = versions.same(pool, f"{what} (seed {seed})", 0.5)
    ctl("verify", "--store", pool)
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    said = [(int(a), int(b)) for a, b in re.findall(r"commit \d+: (\d+) bytes, (\d+) of them from the file", text)]
    sizes, read = sum(a for a, _ in said), sum(b for _, b in said)
    print(f"{what}: {len(said)} commits, {same} files compared; of {sizes} bytes {read} were read from files")
    trial.expect(same >= 3, f"{what}: hardly anything was kept (seed {seed})")
    return len(said), sizes, read


_, sizes, read = case("undisturbed", disturb_nothing)
trial.expect(read < sizes // 2, "hardly anything was pulled")
case("a small ring", disturb_nothing, PORTUS_RING_SIZE="16M")
case("portusd stopped", stop_store)
case("portusd killed", disturb_store, pause=1.5)
case("worker killed", disturb_worker)
