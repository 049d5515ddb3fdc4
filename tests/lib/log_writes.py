# SPDX-License-Identifier: BSD-3-Clause
"""A disk as it was at any point of a log of its writes (dm-log-writes; the format is in the kernel's dm-log-writes.c).

Between two flushes a disk may do writes in any order: so at a point in the middle of such a group some of
those, by chance, are not there. The log holds all that was written since the device was made.
"""
import os
import struct

FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class Log:
    def __init__(self, path):
        self.file = open(path, "rb")
        magic, _, self.entries, self.sector = struct.unpack("<QQQI", self.file.read(28))
        if magic != 0x6a736677736872:
            raise ValueError(f"{path}: no log of writes")

    def __iter__(self):
        """(flags, offset, bytes) of each entry; a mark's bytes are its text."""
        at = self.sector
        for _ in range(self.entries):
            self.file.seek(at)
            head = self.file.read(self.sector)
            sector, count, flags, length = struct.unpack_from("<QQQQ", head)
            at += self.sector
            if flags & MARK:
                yield flags, 0, head[32:32 + length].rstrip(b"\0")
            elif flags & DISCARD:
                yield flags, sector * self.sector, bytes(count * self.sector)
            else:
                yield flags, sector * self.sector, self.file.read(count * self.sector)
                at += count * self.sector


def states(log, image, random, points):
    """
    Yields (marks so far, how many entries) at as many points after the mark "begin", with image as the disk was then. Of
    the writes since the last flush some are left out; they come later.
    """
    total = log.entries
    begin = next(i for i, (flags, _, data) in enumerate(log) if flags & MARK and data == b"begin")
    chosen = set(random.sample(range(begin + 1, total), min(points, total - begin - 1)))
    marks, waiting = [], []
    with open(image, "r+b") as disk:
        def put(writes):
            for offset, data in writes:
                disk.seek(offset)
                disk.write(data)
            disk.flush()
        for i, (flags, offset, data) in enumerate(log):
            if flags & MARK:
                marks.append(data.decode())
            elif flags & FUA:
                put(waiting + [(offset, data)] if flags & FLUSH else [(offset, data)])
                waiting = [] if flags & FLUSH else waiting
            else:
                if flags & FLUSH:
                    put(waiting)
                    waiting = []
                if data:
                    waiting.append((offset, data))
            if i in chosen:
                copy = image + ".point"
                os.system(f"cp --sparse=always {image} {copy}")
                with open(copy, "r+b") as cut:
                    for at, some in waiting:
                        if random.random() < 0.5:
                            cut.seek(at)
                            cut.write(some)
                yield marks, i, copy
                os.unlink(copy)
