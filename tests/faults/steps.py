# SPDX-License-Identifier: BSD-3-Clause
"""A program's life in steps, and the same on paper.

A step is (what, handle, x, y, path, path): seeds and lengths for write, writev, fwrite and
pwrite (whose place is the path); a place for seek, fseek and cut; place and length for
look, which sums up what it reads; another handle for onto, a dup2; `child` makes a
directory in a forked child; pause takes milliseconds.
"""
import errno
import random

SEEDS = 1 << 20
PATTERN = random.Random(7).randbytes(8 << 20)
K = 1 << 10

STEPS = [
    ("mkdir", 0, 0, 0, "s1", ""),
    ("open", 0, 0, 0, "s1/model.ckpt", ""),
    ("write", 0, 1, 100, "", ""),
    ("write", 0, 2, 2048 * K + 77, "", ""),
    ("pwrite", 0, 3, 64, "0", ""),
    ("writev", 0, 4, 300 * K + 300, "", ""),
    ("fstat", 0, 0, 0, "", ""),
    ("end", 0, 0, 0, "", ""),
    ("close", 0, 0, 0, "", ""),
    ("stat", 0, 0, 0, "s1/model.ckpt", ""),
    ("open", 1, 0, 0, "s1/optimizer.ckpt", ""),
    ("write", 1, 5, 500 * K, "", ""),
    ("seek", 1, 512, 0, "", ""),
    ("write", 1, 6, 4000, "", ""),
    ("end", 1, 0, 0, "", ""),
    ("look", 1, 500, 70000, "", ""),
    ("write", 1, 7, 300 * K, "", ""),
    ("sync", 1, 0, 0, "", ""),
    ("write", 1, 8, 300 * K + 1, "", ""),
    ("close", 1, 0, 0, "", ""),
    ("fopen", 2, 0, 0, "s1/rng.ckpt", ""),
    ("fwrite", 2, 9, 300, "", ""),
    ("fwrite", 2, 10, 300 * K + 900, "", ""),
    ("fwrite", 2, 11, 50, "", ""),
    ("fseek", 2, 20, 0, "", ""),
    ("fwrite", 2, 12, 40, "", ""),
    ("fflush", 2, 0, 0, "", ""),
    ("fseek", 2, 300 * K, 0, "", ""),
    ("fwrite", 2, 13, 600 * K, "", ""),
    ("fwrite", 2, 14, 300 * K, "", ""),
    ("fclose", 2, 0, 0, "", ""),
    ("open", 3, 0, 0, "latest.new", ""),
    ("write", 3, 15, 9, "", ""),
    ("sync", 3, 0, 0, "", ""),
    ("close", 3, 0, 0, "", ""),
    ("rename", 0, 0, 0, "latest.new", "latest"),
    ("open", 4, 0, 0, "last.ckpt", ""),
    ("write", 4, 16, 600 * K, "", ""),
    ("close", 4, 0, 0, "", ""),
    ("open", 5, 0, 0, "last.new", ""),
    ("write", 5, 17, 600 * K + 5, "", ""),
    ("cut", 5, 600 * K, 0, "", ""),
    ("write", 5, 18, 300 * K, "", ""),
    ("close", 5, 0, 0, "", ""),
    ("rename", 0, 0, 0, "last.new", "last.ckpt"),
    ("unlink", 0, 0, 0, "s1/optimizer.ckpt", ""),
    ("open", 6, 0, 0, "s1/model.ckpt", ""),
    ("write", 6, 19, 300 * K + 4096, "", ""),
    ("child", 0, 0, 0, "s2", ""),
    ("write", 6, 20, 300 * K, "", ""),
    ("close", 6, 0, 0, "", ""),
    ("open", 7, 0, 0, "s2/open.ckpt", ""),
    ("write", 7, 21, 600 * K, "", ""),
    ("open", 8, 0, 0, "s2/closed.ckpt", ""),
    ("write", 8, 22, 600 * K, "", ""),
    ("close", 8, 0, 0, "", ""),
    ("open", 9, 0, 0, "s2/over.ckpt", ""),
    ("write", 9, 23, 300 * K, "", ""),
    ("chmod", 0, 0o600, 0, "s2/over.ckpt", ""),
    ("write", 9, 24, 300 * K, "", ""),
    ("open", 10, 0, 0, "s2/under.ckpt", ""),
    ("write", 10, 25, 300 * K, "", ""),
    ("onto", 10, 9, 0, "", ""),
    ("write", 10, 26, 300 * K, "", ""),
    ("mkdir", 0, 0, 0, "s3", ""),
    ("write", 7, 27, 300 * K, "", ""),
]

# With a store: files that are kept, renamed, written again, deleted, and one that is never closed.
STORE_STEPS = [
    ("mkdir", 0, 0, 0, "s1", ""),
    ("open", 0, 0, 0, "s1/model.ckpt", ""),
    ("write", 0, 1, 100, "", ""),
    ("write", 0, 2, 1500 * K + 77, "", ""),
    ("pwrite", 0, 3, 64, "0", ""),
    ("close", 0, 0, 0, "", ""),
    ("pause", 0, 120, 0, "", ""),
    ("open", 1, 0, 0, "s1/optimizer.new", ""),
    ("write", 1, 5, 500 * K, "", ""),
    ("close", 1, 0, 0, "", ""),
    ("pause", 0, 60, 0, "", ""),
    ("rename", 0, 0, 0, "s1/optimizer.new", "s1/optimizer.ckpt"),
    ("open", 2, 0, 0, "last.ckpt", ""),
    ("write", 2, 16, 600 * K, "", ""),
    ("close", 2, 0, 0, "", ""),
    ("pause", 0, 60, 0, "", ""),
    ("open", 2, 0, 0, "last.ckpt", ""),
    ("write", 2, 17, 700 * K, "", ""),
    ("sync", 2, 0, 0, "", ""),
    ("close", 2, 0, 0, "", ""),
    ("open", 3, 0, 0, "gone.ckpt", ""),
    ("write", 3, 18, 300 * K, "", ""),
    ("close", 3, 0, 0, "", ""),
    ("pause", 0, 60, 0, "", ""),
    ("unlink", 0, 0, 0, "gone.ckpt", ""),
    ("open", 4, 0, 0, "s1/model.ckpt", ""),
    ("write", 4, 19, 1200 * K, "", ""),
    ("close", 4, 0, 0, "", ""),
    ("open", 5, 0, 0, "open.ckpt", ""),
    ("write", 5, 20, 300 * K, "", ""),
]

WRITES = ("write", "writev", "pwrite", "fwrite")
STREAM = ("fopen", "fwrite", "fseek", "fflush", "fclose")


def text():
    return "".join("%s %d %d %d %s %s\n" % step for step in STEPS)


def data(seed, length):
    start = seed * 40961 % SEEDS
    return PATTERN[start:start + length]


def summed(what):
    total = 0
    for byte in what:
        total = (total * 31 + byte) % 1000000007
    return total


class File:
    def __init__(self):
        self.now, self.past = b"", []  # what it was before each write
        self.called = []
        self.loose = False  # an error of its stream: what stdio kept is stdio's
        self.told = False  # of an error: what is written to it after that is the program's own doing

    def put(self, at, what):
        self.past.append((self.now, len(what)))
        self.now = self.now[:at].ljust(at, b"\0") + what + self.now[at + len(what):]

    def cut(self, length):
        self.past.append((self.now, 0))
        self.now = self.now[:length].ljust(length, b"\0")

    def passed(self, disk):
        """Whether the file was so at some time, a write perhaps being there in part."""
        states = [p for p, _ in self.past] + [self.now]
        for before, after in zip(states, states[1:] + states[-1:]):
            same = next((i for i in range(0, len(disk), 4096) if disk[i:i + 4096] != after[i:i + 4096]), len(disk))
            while same < len(disk) and same < len(after) and disk[same] == after[same]:
                same += 1
            if disk in (before, after) or (len(before) <= len(disk) <= max(len(before), len(after)) and
                                           disk[same:] == before[same:]):
                return True
        return False


class Paper:
    """The steps done on paper, each as far as its result says that it was done."""

    def __init__(self):
        self.names, self.directories = {}, set()
        self.open = {}  # handle: [file, place]
        self.unexpected = []  # steps whose result is not what it should be
        self.later = set()  # steps on a file of which an error was told before

    def expected(self, step):
        what, handle, x, y, a, b = step
        file, place = self.open.get(handle, (None, 0))
        parent = a.rpartition("/")[0]
        if what in ("open", "fopen"):
            return (0, 0) if not parent or parent in self.directories else (-1, errno.ENOENT)
        if what in ("mkdir", "child"):
            return 0, 0
        if what == "stat":
            return (len(self.names[a].now), 0) if a in self.names else (-1, errno.ENOENT)
        if what == "onto" and x not in self.open:
            return -1, errno.EBADF
        if what in ("rename", "unlink", "chmod"):
            return (0, 0) if a in self.names else (-1, errno.ENOENT)
        if file is None:
            return -1, 0 if what in STREAM else errno.EBADF
        return {"write": y, "writev": y, "pwrite": y, "fwrite": y, "seek": x, "fstat": len(file.now),
                "end": len(file.now), "look": what == "look" and summed(file.now[x:x + y])}.get(what, 0), 0

    def do(self, number, result, error):
        step = STEPS[number]
        what, handle, x, y, a, b = step
        wanted = self.expected(step)
        file, place = self.open.get(handle, (None, 0))
        if (about := file or what == "stat" and self.names.get(a)) and about.told:
            self.later.add(number)
        if (result, error if result < 0 else 0) != wanted and not (file and file.loose):
            self.unexpected.append(number)
        if result < 0 or what == "fwrite" and result < y:
            if file is not None:
                file.loose |= what in STREAM
                file.told = True
            if what in ("open", "fopen"):
                self.open.pop(handle, None)
            if result < 0:
                return
        if what in ("open", "fopen"):
            file = self.names.setdefault(a, File())
            file.called.append(a)
            file.cut(0)
            self.open[handle] = [file, 0]
        elif what in ("mkdir", "child"):
            self.directories.add(a)
        elif what == "rename":
            self.names[b] = self.names.pop(a)
        elif what == "onto":
            self.open[handle] = self.open[x]  # and its place
        elif what == "unlink":
            del self.names[a]
        elif what in ("write", "writev", "fwrite"):
            file.put(place, data(x, y)[:result])
            self.open[handle][1] += result
        elif what == "pwrite":
            file.put(int(a), data(x, y)[:result])
        elif what in ("seek", "fseek"):
            self.open[handle][1] = x
        elif what == "end":
            self.open[handle][1] = result
        elif what == "cut":
            file.cut(x)
