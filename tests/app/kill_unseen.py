# SPDX-License-Identifier: BSD-3-Clause
# safetensors writes a temporary file and renames it by a system call that has no libc; program and
# agent are killed together, at 40 instants, when the agent has not moved for a while.
# Right: whatever stands at a real name is whole, and no older than the save before the last that returned.
# run: script timeout=300 needs=torch,safetensors
import os
import random
import signal
import struct
import time

from lib import agents, program, trial

SAVES = """
import numpy
from safetensors.numpy import save_file
for step in range(1, 13):
    w = numpy.full(6 << 20, step, dtype=numpy.float32)
    save_file({"a": w[:99], "w": w, "z": w[:5]}, "model.safetensors" if step % 3 else f"{step}.safetensors")
    print(step, flush=True)
"""
length, ends = None, set()
for seed in range(-1, 40):
    chance, d = random.Random(seed), trial.fresh()
    p = program.start([program.python(), "-u", "-c", SAVES], d, program.environment(trial.JOB, "default"))
    first = p.stdout.readline()
    begin = time.monotonic()
    if length is not None:
        time.sleep(chance.random() * length)
        agents.kill(trial.JOB, signal.SIGSTOP)  # a slow disk
        time.sleep(0.03)
        everyone = [p.pid, *agents.pids(trial.JOB)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in everyone:
                agents.kill_one(pid, number)
    out = program.finish(p, 60)
    if length is None:
        length = time.monotonic() - begin
        trial.expect(out.status == 0, "without a kill: " + out.how(), out)
    agents.kill(trial.JOB)
    trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 10), "the agent lives on")
    said = max(int(n) for n in (first + out.out).split())
    newest = 0
    for name in (n for n in os.listdir(d) if n.endswith(".safetensors")):
        with open(os.path.join(d, name), "rb") as f:
            saved = f.read()[8:].partition(b"}}")[2].lstrip()
        step = int(struct.unpack_from("f", saved)[0]) if saved else 0
        trial.expect(saved == struct.pack("f", step) * ((6 << 20) + 99 + 5),
                     f"seed {seed}: {name} is no whole file; {said} had been said")
        newest = max(newest, step)
    trial.expect(newest >= said, f"seed {seed}: step {said} had been said, on disk is {newest}")
    ends.add(newest)
    os.system(f"rm -rf {d}")
print(f"40 kills, {len(ends)} different ends")
trial.expect(len(ends) >= 4, "all kills came too early or too late")
