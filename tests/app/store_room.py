# SPDX-License-Identifier: BSD-3-Clause
# Two jobs save into a pool that is nearly full at once: what the one saves is pulled from its ring while the other's
# file, engaged before its agent had found the store, is copied. Versions of deleted files are room enough for both.
# Right: each save is kept, and no line says that the pool is full.
# run: script timeout=180
import os
import re
import subprocess
import sys
import time

from lib import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
COPIED, PULLED, FILES, ROUNDS = 320, 80, 4, 4  # MiB, MiB each
SAVE = """
import os, sys
block = os.urandom(1 << 20)
for line in sys.stdin:
    name, size = line.split()
    with open(name, "wb", buffering=0) as f:
        for i in range(int(size)):
            f.write(block[i:] + block[:i])
    print("saved", flush=True)
"""
directory = trial.fresh()
pool, log = (os.path.join(directory, name) for name in ("pool", "log"))


def start(job):
    env = program.environment(f"{trial.JOB}-{job}", "all", PORTUS_STORE=pool, PORTUS_LOG=f"debug:{log}")
    os.makedirs(os.path.join(directory, job))
    return program.start([sys.executable, "-c", SAVE], directory, env, stdin=subprocess.PIPE)


def save(process, name, size):
    process.stdin.write(f"{os.path.join(directory, name)} {size}\n".encode())
    process.stdin.flush()
    trial.until_line(process, "saved")


def said():
    with open(log, encoding="utf-8", errors="replace") as f:
        return f.read()


def answered(count):
    """What the log says when the store has answered for so many files."""
    trial.expect(agents.until(lambda: len(re.findall(r"has it: commit|has not kept it", said())) >= count, 30),
                 f"the store has not answered for {count} files:\n{said()[-2000:]}")
    return said()


subprocess.run([CTL, "pool", "create", pool, f"{2 * COPIED + 2 * FILES * PULLED + 24}M"], check=True,
               stdout=subprocess.DEVNULL)
puller = start("puller")
save(puller, "puller/first", PULLED)
count = 1
answered(count)
for number in range(ROUNDS):
    copier = start(f"copier-{number}")
    names = [f"copier-{number}/0"] + [f"puller/{number}-{i}" for i in range(FILES)]
    save(copier, names[0], COPIED)
    for name in names[1:]:
        save(puller, name, PULLED)
        time.sleep(0.05)
    count += len(names)
    text = answered(count)
    trial.expect(program.finish(copier, 30).status == 0, "the copier ended badly")
    for name in names:
        os.unlink(os.path.join(directory, name))
trial.expect(program.finish(puller, 30).status == 0, "the puller ended badly")
trial.end_stores(pool)
read = [int(a) for a in re.findall(r"bytes, (\d+) of them from the file", text)]
print(f"{len(read)} commits, {sum(1 for a in read if a < 1 << 20)} of them pulled")
trial.expect("not kept" not in text, "not all were kept:\n" + "\n".join(text.splitlines()[-12:]))
trial.expect(min(read) < 1 << 20, "nothing was pulled")
