# SPDX-License-Identifier: BSD-3-Clause
"""Control groups of a test's own, of version 2."""
import os
import time

from . import agents, trial


def top():
    """Where version 2 is mounted, or None."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        found = [line.split()[1] for line in f if line.split()[2] == "cgroup2"]
    return found[0] if found else None


class Group:
    """A group below the top; gone at the end, when nobody is in it. OSError where there can be none."""

    def __init__(self, name, **limits):
        if top() is None:
            raise OSError(0, "no cgroup of version 2")
        self.path = os.path.join(top(), f"portus-{trial.JOB}-{name}")
        os.mkdir(self.path)
        for key, value in limits.items():
            self.write(key.replace("_", "."), value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.freeze(False)
        agents.until(lambda: not self.read("cgroup.procs"), 20)
        for _ in range(50):
            try:
                os.rmdir(self.path)
                break
            except OSError:
                time.sleep(0.1)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as f:
            f.write(str(value))

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="ascii") as f:
            return f.read()

    def counts(self, name):
        """What is in a file of names and numbers."""
        return {key: int(value) for key, value in (line.split() for line in self.read(name).splitlines())}

    def take(self, *pids):
        for pid in pids:
            self.write("cgroup.procs", pid)

    def freeze(self, yes):
        self.write("cgroup.freeze", int(yes))
        agents.until(lambda: self.counts("cgroup.events")["frozen"] == int(yes) or not self.read("cgroup.procs"), 10)
