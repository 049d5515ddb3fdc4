# SPDX-License-Identifier: BSD-3-Clause
"""What a pool holds, against the files that it says to hold."""
import json
import os
import shutil
import subprocess
import time

from . import program, trial

CTL = os.path.join(program.BUILD, "portusctl")
OUT = os.path.join(trial.TOP, "out")


def newest(pool):
    done = subprocess.run([CTL, "ls", "--json", "--store", pool], capture_output=True, text=True, check=False)
    trial.expect(done.returncode == 0, f"portusctl ls: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["versions"]


def settled(pool, pause):
    """The newest versions, when no more have come for pause seconds."""
    before, now = None, newest(pool)
    while before != now:
        time.sleep(pause)
        before, now = now, newest(pool)
    return now


def same(pool, what, pause):
    """How many of the newest versions say to be a file as it stands (size and mtime); they have its bytes."""
    count = 0
    for version in settled(pool, pause):
        path = version["path"]
        try:
            status = os.stat(path)
        except OSError:
            continue
        if (status.st_size, status.st_mtime_ns) != (version["size"], version["mtime_ns"]):
            continue
        shutil.rmtree(OUT, ignore_errors=True)
        done = subprocess.run([CTL, "restore", "--store", pool, "--version", str(version["commit"]), "--to", OUT, path],
                              capture_output=True, text=True, check=False)
        trial.expect(done.returncode == 0, f"{what}: restore: {done.stdout}{done.stderr}")
        with open(path, "rb") as a, open(OUT + path, "rb") as b:
            trial.expect(a.read() == b.read(), f"{what}: {path}: commit {version['commit']} has other bytes")
        count += 1
    return count
