# SPDX-License-Identifier: BSD-3-Clause
"""The row about loading: torch.load from a disk, from the page cache, and from a pool.

The pool is a file on the same disk that has been read before, so it is in memory as
persistent memory would be. Each load is a process of its own, which is not measured; its memory
is fresh, as it is when a program resumes.
"""
import os
import signal
import subprocess
import tempfile
import time

import programs
from lib import agents, cache, program

LOAD = "import sys, time, torch; torch.zeros(1); b = time.perf_counter(); torch.load(sys.argv[1]); " \
       "print(time.perf_counter() - b)"
SAVE = "import sys, torch; n = int(float(sys.argv[2]) * (1 << 28)) // 210; " \
       "torch.save([torch.randn(n) for _ in range(210)], sys.argv[1])"
WORD = "is read from"


def end(pool, job):
    agents.kill(job)
    for pid in agents.stores(pool):
        os.kill(pid, signal.SIGTERM)


def restore(options, progress):
    """Seconds of torch.load, for each place that the bytes come from."""
    found, job = {"disk": [], "cache": [], "pool": []}, f"bench-restore-{os.getpid()}"
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        path, pool = os.path.join(directory, "model.pt"), os.path.join(directory, "pool")
        ctl, python = os.path.join(program.BUILD, "portusctl"), program.python()
        subprocess.run([ctl, "pool", "create", pool, f"{int(options.size * 1280) + 64}M"], check=True,
                       stdout=subprocess.DEVNULL)
        with_pool = programs.environment(job, program.SHIM, PORTUS_STORE=pool, PORTUS_RESTORE="read", PORTUS_SAMPLE=0,
                                         PORTUS_LOG="debug")
        try:
            subprocess.run([python, "-c", SAVE, path, str(options.size)], env=with_pool, check=True,
                           stderr=subprocess.DEVNULL)
            until = time.monotonic() + 60 + 60 * options.size
            while subprocess.run([ctl, "versions", "--store", pool, path], capture_output=True, check=False).returncode:
                if time.monotonic() > until:
                    raise programs.Skip("the store has not kept it")
                time.sleep(0.2)
            time.sleep(1)
            cache.hot(pool)
            for number in range(options.rounds * 3):
                progress(f"restore: round {number + 1} of {options.rounds * 3}")
                for kind, samples in found.items():
                    if kind == "cache":
                        cache.hot(path)
                    else:
                        cache.cold(path)
                    out = subprocess.run([python, "-c", LOAD, path], capture_output=True, text=True, check=True,
                                         env=with_pool if kind == "pool" else programs.environment(job))
                    if kind == "pool" and WORD not in out.stderr:
                        raise programs.Skip("it is not read from the pool here")
                    samples.append(float(out.stdout))
        finally:
            end(pool, job)
    return found
