# SPDX-License-Identifier: BSD-3-Clause
"""Two guests joined by a network of their own: frames over unix datagram sockets, soft-RoCE on top.

Each runs tests/vm/SCRIPT; what they say comes by line(), and what they are told goes by tell().
"""
import os
import subprocess
import sys

from . import guest, program, trial


def disk(name):
    """A new ext4 for a guest."""
    with open(name, "wb") as f:
        f.truncate(512 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", name], check=True,
                   env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
    return name


def key(directory, user):
    """A new one, for portus.key of a guest's arguments."""
    made = subprocess.run([f"{program.BUILD}/portusctl", "key", user, f"{directory}/key"], stdout=subprocess.DEVNULL, check=False)
    trial.expect(made.returncode == 0, "no key")
    return f"{directory}/key"


class Pair:
    """Two guests, store and agent: one may be cut while the other goes on, and be booted again."""

    ADDRESS = {"store": "10.9.2.1", "agent": "10.9.2.2"}

    def __init__(self, directory, script, arguments="", nvdimm=256):
        self.directory, self.script, self.arguments, self.size = directory, script, arguments, nvdimm
        self.nvdimm = f"{directory}/nvdimm"
        with open(self.nvdimm, "wb") as f:
            f.truncate(nvdimm << 20)
        self.guests, self.disks = {}, 0

    def disk(self):
        """A new ext4 for the agent's machine."""
        self.disks += 1
        return disk(f"{self.directory}/disk{self.disks}")

    def boot(self, role, disk=None):
        own = os.path.join(self.directory, role)
        os.makedirs(own, exist_ok=True)
        number = 1 if role == "store" else 2
        # Paths of sockets are short.
        ends = [os.path.join("/tmp", f"portus-vm-{os.getpid()}-{i}") for i in (1, 2)]
        if os.path.exists(ends[number - 1]):
            os.unlink(ends[number - 1])
        network = (f"dgram,id=n0,local.type=unix,local.path={ends[number - 1]},"
                   f"remote.type=unix,remote.path={ends[2 - number]}")
        g = guest.Guest(own, f"{guest.HERE}/{self.script}",
                        f"portus.build={program.BUILD} portus.role={role} {self.arguments}",
                        self.nvdimm if role == "store" else None, disk=disk, size=self.size, network=network, again=True)
        self.guests[role] = g
        return g

    def tell(self, role, text):
        g = self.guests[role]
        g.qemu.stdin.write(text.encode() + b"\n")
        g.qemu.stdin.flush()

    def ask(self, role, text, seconds=120):
        """Runs a line of shell there: (status, lines). Status None: it has not ended in time, or the guest has."""
        self.tell(role, text)
        lines = self.guests[role].until("done ", seconds)
        return (None, self.guests[role].said[-20:]) if lines is None else (int(lines[-1].split()[1]), lines[:-1])

    def cut(self, role):
        return self.guests.pop(role).cut() if role in self.guests else []

    def end(self):
        for role in list(self.guests):
            self.cut(role)
        for i in (1, 2):
            try:
                os.unlink(f"/tmp/portus-vm-{os.getpid()}-{i}")
            except FileNotFoundError:
                pass

    def key(self, user):
        """Where the guests look for it: portus.key of the arguments."""
        key(self.directory, user)

    def wrong(self, text, lines=()):
        """The end of the test: says that, and what the guests said last."""
        print("\n".join(lines), file=sys.stderr)
        for g in self.guests.values():
            print(g.tail(), file=sys.stderr)
        self.end()
        trial.fail(text)

    def up(self, role, disk=None, seconds=240):
        lines = self.boot(role, disk).until("ready", seconds)
        if lines is None:
            self.wrong(f"{role} does not boot")
        if not any(line.startswith("soft-RoCE") for line in lines):
            self.end()
            trial.skip("no soft-RoCE in the guest")

    def used(self, role):
        """Processor seconds so far: {the name of each of ours that runs, or "machine": s}."""
        status, lines = self.ask(role, "head -1 /proc/stat; cat /proc/[0-9]*/stat 2>/dev/null | grep '(portus'; true")
        trial.expect(status == 0, f"{role}: {lines}")
        ticks = [int(word) for word in lines[0].split()[1:9]]
        found = {"machine": (sum(ticks) - ticks[3] - ticks[4]) / 100}
        for line in lines[1:]:
            name, fields = line[line.find("(") + 1:line.rfind(")")], line.rpartition(")")[2].split()
            found[name] = found.get(name, 0) + (int(fields[11]) + int(fields[12])) / 100
        return found

    def do(self, role, text, seconds=120, status=0):
        """What a line of shell says there; it ends as it should."""
        got, lines = self.ask(role, text, seconds)
        print(f"{role}: {text[:100]}: {got}", *lines[-12:], sep="\n    ", flush=True)
        if got != status:
            self.wrong(f"{role}: {text}: {got}", lines)
        return lines
