# SPDX-License-Identifier: BSD-3-Clause
"""The rows about saves: how long the program waits, plainly and with the shim.

A process of each variant, and they take turns: first each makes its first save
(cold), then saves with a pause before each (all synced, then half a second: a
training loop's case), then each saves back to back. All of that once a round.
"""
import contextlib
import hashlib
import os
import time

import machine
import programs

# Its names say nothing.
SNAPSHOT = {"PORTUS_MATCH": "+:*/batched/*:*/0/state/*"}

# name, what it is, kind of save.py, the shim's variables; more variants of the shim
ROWS = [
    ("path", "`torch.save` by path", "path", {}, {"exact": {"PORTUS_CRC": "exact"}}),
    ("overwrite", "`torch.save` onto the same path", "path", {}, {}),
    ("replace", "`torch.save`, then `os.replace`", "replace", {}, {}),
    ("fsync", "`torch.save`, flush, `os.fsync`", "fsync", {}, {}),
    ("ring", "`torch.save`, the ring a third of it", "path", {"PORTUS_RING_SIZE": "third"}, {}),
    ("first", "the first `torch.save` of a process", "path", {}, {}),
    ("safetensors", "safetensors `save_file`", "safetensors", {}, {}),
    ("dcp", "DCP `save`", "dcp", {}, {}),
    ("dcp_async", "DCP `async_save`, the stall", "dcp_async", {}, {}),
    ("snapshot", "torchsnapshot `take`, `PORTUS_MATCH`", "snapshot", SNAPSHOT, {}),
    ("snapshot_async", "torchsnapshot `async_take`, the stall, `PORTUS_MATCH`", "snapshot_async", SNAPSHOT, {}),
]


def digest(path):
    """Of all files in it but those with a random name or time inside: what they hold, sorted."""
    found = []
    for name in programs.files_below(path):
        if os.path.basename(name).startswith("."):
            continue
        sha = hashlib.sha256()
        with open(name, "rb") as f:
            while block := f.read(1 << 20):
                sha.update(block)
        found.append(sha.hexdigest())
    return sorted(found)


# Seconds: saves of a cold process, after a pause, back to back; a memcpy of the same
# bytes; until others could read a file, until all was on the disk; and what of the
# saves after a pause the program waited for a processor.
KEPT = ("first", "pause", "back", "memcpy", "drained", "synced", "queued")


class Samples:
    """What one variant of a row gave."""

    def __init__(self):
        for name in KEPT:
            setattr(self, name, [])
        self.saves = self.captured = 0
        self.digest = None

    def one(self, saver, name, cold=False):
        """A save after a pause, and how long until others can read it, until it is on the disk."""
        machine.settle()
        self.memcpy.append(saver.ask("memcpy")["seconds"])
        answer = saver.ask("save", name)
        seconds = answer["seconds"]
        began = time.perf_counter()
        programs.wait_whole(saver.path(name))
        drained = time.perf_counter() - began
        os.sync()
        self.saves += 1
        if cold:
            self.first.append(seconds)
            return
        self.pause.append(seconds)
        self.queued.append(answer["queued"])
        self.drained.append(drained)
        self.synced.append(time.perf_counter() - began)

    def burst(self, saver, names):
        """Saves back to back; the first of them had a pause before it and does not count."""
        machine.settle()
        self.memcpy.append(saver.ask("memcpy")["seconds"])
        self.back += saver.ask("burst", *names)["seconds"][1:]
        for name in set(names):
            programs.wait_whole(saver.path(name))
        self.saves += len(names)


def one_round(row, options, variants, found):
    """A process of each variant; they take turns, save by save."""
    name, _, kind, _, _ = row
    same = name == "overwrite"
    with contextlib.ExitStack() as stack:
        savers = {}
        for key, (shim, variables) in variants.items():
            savers[key] = stack.enter_context(programs.Saver(kind, options.size, options.dir, shim, variables))
        for key, saver in savers.items():
            found[key].bytes, found[key].versions = saver.hello["bytes"], saver.hello["versions"]
            found[key].one(saver, "step-0", cold=True)
        if name != "first":
            for i in range(1, options.pauses + 1):
                now, before = ("step-0", None) if same else (f"step-{i}", f"step-{i - 1}")
                for key, saver in savers.items():
                    found[key].one(saver, now)
                    if before:
                        saver.remove(before)
            for key, saver in savers.items():
                found[key].digest = found[key].digest or digest(saver.path(now))
                names = [now if same else f"burst-{i}" for i in range(options.burst)]
                found[key].burst(saver, names)
                saver.empty()
        for key, saver in savers.items():
            found[key].captured += saver.end() or 0


def measure(row, options, progress):
    """The samples of each variant, by its name."""
    name, _, _, variables, more = row
    variants = {"plain": (False, {}), "shim": (True, variables)}
    variants.update((key, (True, value)) for key, value in more.items())
    third = {"third": str(int(options.size * programs.GIB / 3))}
    variants = {key: (shim, {k: third.get(v, v) for k, v in value.items()})
                for key, (shim, value) in variants.items()}
    found = {key: Samples() for key in variants}
    rounds = options.rounds * (2 if name == "first" else 1)
    for number in range(rounds):
        progress(f"{name}: round {number + 1} of {rounds}")
        one_round(row, options, variants, found)
    return found
