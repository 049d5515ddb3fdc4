# SPDX-License-Identifier: BSD-3-Clause
"""A program that saves when it is told to, and an agent that is slow at it."""
import contextlib
import os
import signal
import subprocess
import sys
import threading

from . import agents, program, summary, trial


def piece(seed, n=8 << 20):
    return bytes([seed % 251 + 1]) * n


CREATE = 'fd = os.open("{0}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644); '


class Saver:
    """Does one line of Python after the other."""

    TEXT = """
import os, sys
def piece(seed, n=8 << 20): return bytes([seed % 251 + 1]) * n
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""

    def __init__(self, mode="all", **more):
        self.directory = trial.fresh()
        self.process = program.start([sys.executable, "-c", self.TEXT], self.directory,
                                     program.environment(trial.JOB, mode, **more), stdin=subprocess.PIPE)

    def do(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        trial.until_line(self.process, "done")

    def path(self, name):
        return os.path.join(self.directory, name)

    def end(self, captured):
        out = program.finish(self.process, 60)
        trial.expect(out.status == 0, out.how(), out)
        trial.expect((summary.captured(out.err) or 0) >= captured, f"captured too few files: {out.err.decode()}", out)


@contextlib.contextmanager
def slowed(job):
    """Meanwhile the job's agent runs a small part of the time."""
    over = threading.Event()

    def slow():
        while not over.wait(0.004):
            pids = agents.pids(job)
            for pid in pids:
                agents.kill_one(pid, signal.SIGSTOP)
            over.wait(0.05)
            for pid in pids:
                agents.kill_one(pid, signal.SIGCONT)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
