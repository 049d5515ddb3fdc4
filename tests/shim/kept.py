# SPDX-License-Identifier: BSD-3-Clause
# The programs of this directory with every file captured and a store: what it has pulled out of the
# ring and read from the files makes up the files.
# Right: the program's output and files as without the shim; each version that says to be a file as it
# stands (size and mtime) has its bytes; and much of it was pulled.
# run: script timeout=300
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from lib import agents, kinds, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
POOL = os.path.join(trial.TOP, "pool")
LOG = os.path.join(trial.TOP, "log")
SECONDS = 60
total = {"versions": 0, "bytes": 0, "read": 0}


def portusctl(*arguments):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, check=False)


def newest():
    done = portusctl("ls", "--json", "--store", POOL)
    trial.expect(done.returncode == 0, f"portusctl ls: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["versions"]


def settled():
    """The newest versions, when no more have come for a moment."""
    before = None
    for _ in range(50):
        now = newest()
        if now == before:
            break
        before = now
        time.sleep(0.2)
    return now


def check(name, directory):
    out = os.path.join(trial.TOP, "out")
    for version in settled():
        path = version["path"]
        try:
            status = os.stat(path)
        except OSError:
            continue
        if (status.st_size, status.st_mtime_ns) != (version["size"], version["mtime_ns"]):
            continue
        shutil.rmtree(out, ignore_errors=True)
        done = portusctl("restore", "--store", POOL, "--version", str(version["commit"]), "--to", out, path)
        trial.expect(done.returncode == 0, f"{name}: restore: {done.stdout}{done.stderr}")
        with open(path, "rb") as a, open(out + path, "rb") as b:
            trial.expect(a.read() == b.read(), f"{name}: {path}: commit {version['commit']} has other bytes")
        total["versions"] += 1


def one(test):
    shutil.rmtree(POOL, ignore_errors=True)
    if os.path.exists(POOL):
        os.unlink(POOL)
    trial.expect(portusctl("pool", "create", POOL, "1G").returncode == 0, "no pool")
    trial.compared(test.argv, test.name, timeout=test.timeout, PORTUS_STORE=POOL, PORTUS_LOG=f"debug:{LOG}")
    check(test.name, trial.TOP)


# While the store reads a file it cannot be unmounted.
WITHOUT = ["shim/unmount"]
only = sys.argv[1:]
begin = time.monotonic()
for test in kinds.find(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), program.BUILD):
    if not test.path.endswith((".c", ".cc")) or not test.name.startswith("shim/") or "slow" in test.tags:
        continue
    if test.tags.get("captures-all", test.tags.get("captures", "0")) == "0" or (only and test.name not in only):
        continue
    if test.name in WITHOUT or "all" not in test.tags.get("modes", "default,all").split(","):
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
