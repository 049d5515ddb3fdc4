# SPDX-License-Identifier: BSD-3-Clause
"""What a measurement was made on, and how to let the machine come to rest."""
import os
import time


def _first(path, key):
    try:
        with open(path) as f:
            for line in f:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "?"


def file_system(path):
    """Type, source and options of the file system at path."""
    path, best, found = os.path.realpath(path), "", ("?", "?", "?")
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            words, (kind, source) = left.split(), right.split()[:2]
            point = words[4].encode().decode("unicode_escape")
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, found = point, (kind, source, words[5])
    return found


def describe(directory):
    kind, source, options = file_system(directory)
    return {
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30), 1),
        "kernel": os.uname().release,
        "file_system": kind,
        "mounted": f"{source} ({options})",
        "huge_pages": _word("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        "load_before": os.getloadavg()[0],
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _word(path):
    """The chosen word of a sysfs file: the one in brackets."""
    try:
        with open(path) as f:
            return f.read().partition("[")[2].partition("]")[0]
    except OSError:
        return "?"


def settle():
    """All written, then half a second for what the disk still does."""
    os.sync()
    time.sleep(0.5)
