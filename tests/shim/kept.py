# SPDX-License-Identifier: BSD-3-Clause
# The programs of this directory with every file captured and a store: what it has pulled out of the
# ring and read from the files makes up the files.
# Right: the program's output and files as without the shim; each version that says to be a file as it
# stands (size and mtime) has its bytes; and much of it was pulled.
# run: script timeout=300
import os
import re
import signal
import subprocess
import sys
import time

from lib import agents, kinds, program, trial, versions

CTL = os.path.join(program.BUILD, "portusctl")
POOL = os.path.join(trial.TOP, "pool")
LOG = os.path.join(trial.TOP, "log")
SECONDS = 60
total = {"versions": 0, "bytes": 0, "read": 0}


def portusctl(*arguments):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, check=False)


def one(test):
    if os.path.exists(POOL):
        os.unlink(POOL)
    trial.expect(portusctl("pool", "create", POOL, "1G").returncode == 0, "no pool")
    trial.compared(test.argv, test.name, timeout=test.timeout, PORTUS_STORE=POOL, PORTUS_LOG=f"debug:{LOG}")
    total["versions"] += versions.same(POOL, test.name, 0.2)


only = sys.argv[1:]
begin = time.monotonic()
for test in kinds.find(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), program.BUILD):
    if not test.path.endswith((".c", ".cc")) or not test.name.startswith("shim/") or "slow" in test.tags:
        continue
    if test.tags.get("captures-all", test.tags.get("captures", "0")) == "0" or (only and test.name not in only):
        continue
    if "all" not in test.tags.get("modes", "default,all").split(","):
        continue
    if int(test.tags.get("mem", 0)) > 0 or time.monotonic() - begin > SECONDS:
        continue
    one(test)
for pid in agents.stores(POOL):
    os.kill(pid, signal.SIGTERM)
with open(LOG, encoding="utf-8", errors="replace") as f:
    for line in f:
        said = re.search(r"commit \d+: (\d+) bytes, (\d+) of them from the file", line)
        if said:
            total["bytes"] += int(said[1])
            total["read"] += int(said[2])
print(f"{total['versions']} versions are their files; of {total['bytes']} bytes {total['read']} were read from files")
trial.expect(total["versions"] > 20 or only, "hardly anything was kept")
trial.expect(total["read"] < total["bytes"] or only, "nothing was pulled")
