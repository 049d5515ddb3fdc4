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


class Memory:
    """A group with a limit of memory and no swap, of whichever version has that; gone at the end, with the job's agent. Or a skip."""

    def __init__(self, limit=None):
        base = next((p for p in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.exists(f"{p}/memory.stat")), None)
        if base is None:
            trial.skip("no memory cgroup")
        one = base.endswith("memory")
        self.path = f"{base}/portus-{trial.JOB}"
        self.names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.usage_in_bytes") if one else \
            ("memory.max", "memory.swap.max", "memory.current")
        try:
            os.mkdir(self.path)
        except OSError as e:
            trial.skip(f"no cgroup of our own: {e.strerror}")
        try:
            self.limit(limit or self.read(self.names[0]))  # where memory is not controlled there is no such file
            if limit and os.path.exists(f"{self.path}/{self.names[1]}"):
                self._write(self.names[1], limit if one else 0)
        except OSError as e:
            os.rmdir(self.path)
            trial.skip(f"no limit of memory for a cgroup of our own: {e.strerror}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        agents.kill(trial.JOB)
        for pid in map(int, self.read("cgroup.procs").split()):
            agents.kill_one(pid)
        agents.until(lambda: not self.read("cgroup.procs"), 5)
        os.rmdir(self.path)

    def _write(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="ascii") as f:
            f.write(str(value))

    def read(self, name):
        with open(f"{self.path}/{name}", encoding="ascii") as f:
            return f.read()

    def limit(self, size):
        self._write(self.names[0], size)

    def leave(self, size):
        """A limit so near. Version 1 refuses one below what it has not yet taken back."""
        def limited():
            try:
                self.limit(self.used() + size)
            except OSError:
                return False
            return True

        trial.expect(agents.until(limited, 10, 0.2), "the limit cannot be set")

    def used(self):
        """Without what of the page cache can be taken back at once."""
        return int(self.read(self.names[2])) - int(dict(line.split()[:2] for line in self.read("memory.stat").splitlines())["inactive_file"])

    def joined(self, argv):
        """The command, to run in it."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs; exec "$@"', "sh", *argv]
