# SPDX-License-Identifier: BSD-3-Clause
"""Random schedules (schedule.c), plainly and with the shim: files as their model has them.

SCHEDULES=N  how many (20); FIRST=N  the first (from the clock). `make check-schedules` runs 10,000.

run: timeout=400
"""
import os
import sys
import time
import zlib

from lib import agents, program, summary

# What each batch is run with, in turn; the last ones make the emulated device slow.
WAYS = [("plain", None, {}), ("default", "default", {}), ("all", "all", {}), ("ring", "ring", {}),
        ("copy", "all", {"PORTUS_PROMISE": "off"}), ("late", "all", {"EMU_LATENCY": 300}),
        ("slow", "default", {"EMU_BANDWIDTH": "2G"})]
BATCH = 5
job, directory = os.environ["PORTUS_JOB"], os.environ["TEST_DIR"]
count = int(os.environ.get("SCHEDULES", "20"))
first = int(os.environ.get("FIRST", time.time() * 1000))
argv = [os.path.join(program.BUILD, "tests/emu/schedule")]


def wrong(text, outcome):
    print(text + "\n" + outcome.tail())
    sys.exit(1)


def run(way, seed):
    """Runs one batch one way; returns how many percent of what was captured no CPU copied."""
    name, mode, more = way
    env = program.emulated(program.environment(job, mode, **more))
    outcome = program.run([*argv, str(seed), str(BATCH)], directory, env, 300)
    what = f"schedules {seed} to {seed + BATCH - 1}, {name}"
    if outcome.late or outcome.status:
        wrong(f"{what}: {outcome.how()}", outcome)
    lines = outcome.out.decode().split("\n")[:-1]
    for line in lines:
        file, size, crc = line.split()
        path = os.path.join(directory, file)
        with open(path, "rb") as f:
            data = f.read()
        if len(data) != int(size) or zlib.crc32(data) != int(crc, 16):
            os.rename(path, path + ".wrong")
            wrong(f"{what}: {file} is wrong: {len(data)} bytes, not {size}, or others", outcome)
        os.unlink(path)
    return summary.referred(outcome.err)


promised = {name: 0 for name, _, _ in WAYS}
for i in range(0, count, BATCH):
    for way in WAYS if count <= 100 else [WAYS[0], WAYS[1 + i // BATCH % (len(WAYS) - 1)]]:
        promised[way[0]] = max(promised[way[0]], run(way, first + i))
agents.kill(job)
print(f"{count} schedules from {first}; of a batch at most from the device: {promised}")
if not promised["default"] or promised["copy"]:
    print("nothing came from the device, or where nothing should")
    sys.exit(1)
