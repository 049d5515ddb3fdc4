# SPDX-License-Identifier: BSD-3-Clause
"""Files in the page cache, and out of it."""
import os


def cold(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def hot(path):
    with open(path, "rb") as f:
        while f.read(1 << 22):
            pass
