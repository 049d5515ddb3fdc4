# SPDX-License-Identifier: BSD-3-Clause
"""Power cuts: a guest saves into a pool on its NVDIMM, is killed at a random instant, and boots again.

Right, in each boot: every version in the pool is whole, one that was written; a version that a fresh opening
had shown to the host is still there, or a newer one of that checkpoint is; so is a step of which fsync had
returned, in the pool or in its own file, and in the pool if the disk was too slow to have it. In the end all
room is free again.
"""
import os
import random
import re
import struct
import subprocess
import time
import zlib

from . import guest, program

HERE = guest.HERE
KINDS = [(kind, eadr) for kind in ("fsdax", "devdax") for eadr in (False, True)]
BOOT = 180  # seconds, of a guest that is emulated on a busy machine
SIZE = 3 * (128 << 10)
SYNCED = re.compile(r"(f?)synced (\S+) (\d+)")


class Wrong(Exception):
    pass


class Power:
    """One NVDIMM and its cycles."""

    def __init__(self, directory, kind, eadr, seed):
        self.directory, self.kind, self.eadr = directory, kind, eadr
        self.random = random.Random(f"{seed} {kind} {eadr}")
        self.nvdimm, self.disk = f"{directory}/nvdimm", f"{directory}/disk"
        for name, size in ((self.nvdimm, 128 << 20), (self.disk, 256 << 20)):
            with open(name, "wb") as f:
                f.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.disk], check=True,
                       env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        self.step, self.shown, self.synced, self.crcs = 1, {}, {}, {}
        self.committed = {}
        self.versions, self.acknowledged, self.early, self.slow, self.relied, self.late = 0, 0, 0, 0, 0, False
        self.free = 0
        self.free = self.boot("make")

    def guest(self, do):
        return guest.Guest(self.directory, f"{HERE}/power.sh", f"portus.build={program.BUILD} portus.kind={self.kind} "
                           f"portus.do={do} portus.step={self.step} portus.free={self.free}", self.nvdimm, self.eadr, self.disk, again=True)

    def content(self, crc):
        """(file, step) of which these are the bytes."""
        for step in range(self.step + 2000):
            if crc in self.crcs:
                break
            for n, name in enumerate(("a.ckpt", "b.ckpt")):
                if (name, step) not in self.crcs:
                    self.crcs[name, step] = 0
                    self.crcs[zlib.crc32(struct.pack("<Q", step << 8 | n) * (SIZE // 8))] = (name, step)
        return self.crcs.get(crc)

    def boot(self, do):
        """A boot that is not cut: make or end. What is free then."""
        g = self.guest(do)
        lines = g.until("exit ", BOOT)
        g.cut()
        if lines is None or lines[-1] != "exit 0":
            raise Wrong(f"{do}: {g.tail()}")
        domain = "domain cpu_cache" if self.eadr else "domain memory_controller"
        if domain not in lines:
            raise Wrong(f"not {domain}: {[x for x in lines if x.startswith('domain')]}")
        if not any(self.kind in x for x in lines):
            raise Wrong(f"the pool is not said to be on {self.kind}: {lines}")
        if do == "end":
            self.check(lines)
            versions = [x for x in lines if re.match(r"left \d", x)]
            if versions:
                raise Wrong(f"not removed: {versions}")
        wanted = "found free" if do == "make" else "left free"
        return int(next((x for x in lines if x.startswith(wanted)), "-1").split()[-1])

    def cycle(self):
        """A boot, a look, saves, and the cut."""
        early = bool(self.shown) and self.random.random() < 0.25
        slow = not early and bool(self.shown) and self.random.random() < 0.33
        g = self.guest("slow" if slow else "save")
        wanted = ["look" if early else "saving"]
        if slow:
            wanted += ["slow", "fsynced", "fsynced"]  # the first may have begun before
        elif not early:
            # Every other one once something is in the pool: a slow machine may not get there by itself.
            self.late = not self.late
            if self.late:
                wanted += ["synced"] if self.shown else [tuple(f"kept {n}" for n in range(10))]
        for i, word in enumerate(wanted):
            if (lines := g.until(word, BOOT)) is None:
                g.cut()
                raise Wrong(f"no {word!r}: {g.tail()}")
            if i == 0 and not early:
                self.check(lines)
        time.sleep(self.random.random() * (0.1 if slow else 2 if early else 3))
        g.cut()
        if any("program ended" in x for x in g.said) or any(x.startswith("exit") for x in g.said):
            raise Wrong(g.tail())
        self.early += early
        self.slow += slow
        self.note(g.said, slow)

    def note(self, lines, slow):
        """What the guest showed before its power went."""
        for line in lines:
            if found := re.fullmatch(r"kept (\d+) (\d+) \S+ (\d+) (\S+)", line):
                number, crc = int(found[1]), int(found[3])
                if self.content(crc) is None or int(found[2]) != SIZE:
                    raise Wrong(f"a version that nobody wrote: {line}")
                self.shown[number] = crc
                self.versions = max(self.versions, len(self.shown))
            elif found := SYNCED.fullmatch(line):
                name, step = found[2], int(found[3])
                self.step = max(self.step, step + 1)
                if not found[1]:
                    self.synced[name] = step
                    self.acknowledged += 1
                elif slow:
                    self.committed = {name: step}  # the last one
        self.step += 2  # what was begun is not written again

    def check(self, lines):
        """What a boot found against what earlier ones had shown."""
        found, newest, disk, restored = {}, {}, {}, {}
        for line in lines:
            if match := re.fullmatch(r"found (\d+) (\d+) \S+ (\d+) (\S+)", line):
                number, crc = int(match[1]), int(match[3])
                content = self.content(crc)
                if content is None or int(match[2]) != SIZE:
                    raise Wrong(f"a version that nobody wrote: {line}")
                found[number] = crc
                newest[content[0]] = max(newest.get(content[0], 0), content[1])
            elif match := re.fullmatch(r"(disk|restored) (\S+) (\w+)", line):
                if match[3] == "torn":
                    if match[1] == "disk":  # what fsync returned for is in the pool
                        continue
                    raise Wrong(line)
                (disk if match[1] == "disk" else restored)[match[2]] = int(match[3])
        if not any(line.startswith("found free") for line in lines):
            raise Wrong(f"the pool is damaged: {lines}")
        for number, crc in self.shown.items():
            name, step = self.content(crc)
            if found.get(number, crc) != crc:
                raise Wrong(f"commit {number} has other bytes: {lines}")
            if number not in found and newest.get(name, 0) <= step:
                raise Wrong(f"commit {number}, {name} of step {step}, is gone: {lines}")
        for name, step in self.committed.items():
            on_disk = max(disk.get(name, 0), disk.get("new.ckpt", 0))
            if max(newest.get(name, 0), on_disk) < step:
                raise Wrong(f"{name} of step {step}: fsync had returned, and neither pool nor disk have it: {lines}")
            self.relied += on_disk < step
        self.committed = {}
        for name, step in self.synced.items():
            if max(newest.get(name, 0), disk.get(name, 0)) < step:
                raise Wrong(f"{name} of step {step} was synced and is gone: {lines}")
        for name, step in restored.items():
            if step > newest.get(name, 0):
                raise Wrong(f"{name}: restored to step {step}, not in the pool: {lines}")
        self.shown = found
        self.versions = max(self.versions, len(found))

    def end(self):
        free = self.boot("end")
        if free != self.free:
            raise Wrong(f"{self.free - free} bytes are not free again")


def run(directory, cycles, seed, say):
    """All four kinds. Raises Wrong."""
    for kind, eadr in KINDS:
        where = f"{directory}/{kind}-{'eadr' if eadr else 'adr'}"
        os.mkdir(where)
        begin = time.monotonic()
        power = Power(where, kind, eadr, seed)
        for _ in range(cycles):
            power.cycle()
        power.end()
        say(f"{kind} {'eADR' if eadr else 'ADR'}: {cycles} power cuts, {power.early} of them at recovery, {power.slow} when "
            f"fsync had returned over a slow disk ({power.relied} times it was in the pool alone); {power.acknowledged} saves synced, {power.versions} versions at most; "
            f"{time.monotonic() - begin:.0f} s")
        if not power.acknowledged or not power.versions:
            raise Wrong("nothing was kept before a cut")
        if power.slow > 3 and power.relied == 0:
            raise Wrong("fsync waited for the disk, never for the pool")
        os.unlink(power.nvdimm)
        os.unlink(power.disk)
