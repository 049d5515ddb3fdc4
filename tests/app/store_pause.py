# SPDX-License-Identifier: BSD-3-Clause
# When the store pulls: a program saves over and over, with pauses; once its ring has grown to a save.
# Right: what is kept was pulled from the ring, and that begins when the program has paused: of
# ten saves (a busy machine makes pauses of its own) there are some during which nothing was pulled.
# run: script timeout=120
import json
import os
import re
import subprocess
import sys

from lib import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
SIZE, GROWING, SAVES = 96, 3, 10  # MiB, saves
SAVE = """
import os, sys, time
block = os.urandom(1 << 20)
for number in range(%d):
    if number >= 4:
        os.unlink(f"{number - 4}.ckpt")
    with open(f"{number}.ckpt", "wb", buffering=0) as f:
        began = time.monotonic_ns()
        for i in range(%d):
            f.write(block)
        print(began, time.monotonic_ns(), flush=True)
    time.sleep(0.4)
""" % (GROWING + SAVES, SIZE)

directory = trial.fresh()
pool, trace, log = (os.path.join(directory, name) for name in ("pool", "trace.json", "log"))
subprocess.run([CTL, "pool", "create", pool, f"{SIZE * 8}M"], check=True, stdout=subprocess.DEVNULL)
out = program.run([sys.executable, "-c", SAVE], directory,
                  program.environment(trial.JOB, "default", PORTUS_STORE=pool, PORTUS_TRACE=trace, PORTUS_LOG=f"debug:{log}"), 90)
trial.expect(out.status == 0, f"the saves: {out.how()}", out)
agents.until(lambda: not agents.pids(trial.JOB), 20)
trial.end_stores(pool)
with open(trace, encoding="ascii") as f:
    events = json.loads(f.read().rstrip().rstrip(",") + "]")
pulls = [event["ts"] * 1000 for event in events if event["name"] == "pull" and event["ph"] == "b"]
saves = [tuple(map(int, line.split())) for line in out.out.split(b"\n") if line][GROWING:]
quiet = sum(not any(began < pull < ended for pull in pulls) for began, ended in saves)
with open(log, encoding="utf-8", errors="replace") as f:
    read = [int(bytes) for bytes in re.findall(r"commit \d+: \d+ bytes, (\d+) of them from the file", f.read())]
print(f"{len(pulls)} pulls, none of them in {quiet} of {SAVES} saves; read from files: {read}")
# One that is deleted before it is drained is no version; until the ring has grown there is no room.
trial.expect(len(pulls) >= SAVES and sum(bytes < 1 << 20 for bytes in read) >= 3, "hardly anything was pulled")
trial.expect(quiet >= 2, "the store pulls while the program saves")
