# SPDX-License-Identifier: BSD-3-Clause
"""Starts the measured programs, plainly and with the shim, and talks with them.

Each program that runs with the shim has a job, and therefore an agent, of its own.
"""
import json
import os
import shutil
import subprocess
import tempfile
import threading

from lib import agents, program, summary

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
_serial = iter(range(1, 1 << 30))


class Skip(Exception):
    """Why a row cannot be measured here."""


def environment(job, preload=None, **more):
    """Plain if there is nothing to preload."""
    env = program.environment(job)
    env.pop("OMP_NUM_THREADS", None)
    if preload:
        env["LD_PRELOAD"] = preload
    env.update({k: str(v) for k, v in more.items()})
    return env


def files_below(path):
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(top, name) for top, _, names in os.walk(path) for name in names)


def wait_whole(path):
    """Returns when other processes can read all of it: a plain open waits for the drain."""
    for name in files_below(path):
        os.close(os.open(name, os.O_RDONLY))


class Saver:
    """A running save.py."""

    def __init__(self, kind, gib, directory, shim, variables):
        self.job = f"bench-{os.getpid()}-{next(_serial)}"
        self.directory = tempfile.mkdtemp(prefix=f"{kind}-", dir=directory)
        self.shim = shim
        env = environment(self.job, program.SHIM if shim else None, **variables)
        if shim:
            env.update(PORTUS_SUMMARY="1", PORTUS_SAMPLE="0")
        self.errors = tempfile.TemporaryFile(dir=directory)
        self.process = subprocess.Popen(
            [program.python(), os.path.join(HERE, "save.py"), kind, str(gib), self.directory],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.hello = self._answer()
        if "skip" in self.hello:
            self.end()
            raise Skip(self.hello["skip"])

    def _said(self):
        self.errors.seek(0)
        return self.errors.read()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"save.py ended with status {self.process.returncode}:\n"
                               + self._said().decode(errors="replace")[-2000:])
        return json.loads(line)

    def ask(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def path(self, name):
        return os.path.join(self.directory, name)

    def remove(self, name):
        path = self.path(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def empty(self):
        for name in os.listdir(self.directory):
            self.remove(name)

    def end(self):
        """How many files the shim captured; None without it."""
        self.process.stdin.close()
        try:
            self.process.wait(120)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            said = self._said()
            self.errors.close()
            shutil.rmtree(self.directory, ignore_errors=True)
        if self.process.returncode != 0:
            raise RuntimeError(f"save.py ended with status {self.process.returncode}")
        return summary.captured(said)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


# ---- the agent of a job ---------------------------------------------------------


def agent_seconds(job):
    """Processor time that the agent's processes have used."""
    total = 0.0
    for pid in agents.pids(job):
        try:
            with open(f"/proc/{pid}/schedstat") as f:
                total += int(f.read().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            pass
    return total


def ring_bytes(job):
    """Memory in the rings of the agent: pages that are there, not what is mapped."""
    rings = {}
    for pid in agents.pids(job):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                name = f"/proc/{pid}/fd/{fd}"
                if os.readlink(name).startswith("/memfd:portus-ring"):
                    status = os.stat(name)
                    rings[status.st_ino] = status.st_blocks * 512
        except OSError:
            pass
    return sum(rings.values())


class Peak:
    """The most ring memory that a job had while this was open."""

    def __init__(self, job):
        self.job, self.bytes, self._over = job, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._over.wait(0.05):
            self.bytes = max(self.bytes, ring_bytes(self.job))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self.bytes = max(self.bytes, ring_bytes(self.job))
