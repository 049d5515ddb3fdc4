# SPDX-License-Identifier: BSD-3-Clause
"""A program that saves again and again and keeps the last N, and what such a job takes of the machine.

    python3 rotate.py SAVES KEEP [STEP,...]     goes on from where the last one came to; after these it waits for a line

Each checkpoint is named by `latest` when it is whole, and ends with the digest of what is before. What it finds at its
beginning it checks: exit status 9 if `latest` names what is not there, or not whole.
"""
import glob
import hashlib
import os
import sys

PIECE = 1 << 20


def body(step):
    return (step.to_bytes(8, "little") + bytes((step + i) & 255 for i in range(PIECE - 8))) * 2


def whole(path):
    """The step that the file is of; None: it is not whole."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except FileNotFoundError:
        return None
    head, tail = data[4:-32], data[-32:]
    return int.from_bytes(head[:8], "little") if len(data) > 2 * PIECE and hashlib.sha256(head).digest() == tail else None


def latest():
    """The step that `latest` names, 0: none yet; None if that is not there, whole."""
    try:
        with open("latest", encoding="ascii") as f:
            name = f.read()
    except FileNotFoundError:
        return 0
    step = whole(name)
    return step if name == f"step-{step}.ckpt" else None


def save(step, keep):
    data = body(step)
    with open("new.ckpt", "wb", buffering=0) as f:
        f.write(b"PK\3\4")
        f.write(data[:PIECE + 77])
        f.write(data[PIECE + 77:])
        f.write(hashlib.sha256(data).digest())
        if step % 20 == 0:
            os.fsync(f.fileno())
    os.rename("new.ckpt", f"step-{step}.ckpt")
    with open("latest.new", "w", encoding="ascii") as f:
        f.write(f"step-{step}.ckpt")
    os.replace("latest.new", "latest")
    for path in glob.glob("step-*.ckpt"):
        if int(path[5:-5]) <= step - keep:
            os.unlink(path)


def takes(pids, directory):
    """What these processes and the directory take: each number should come to rest."""
    found = {"descriptors": 0, "orphans": 0, "memory": 0, "shared": 0, "mappings": 0}
    for pid in pids:
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                status = dict(line.split(":", 1) for line in f)
            with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
                found["mappings"] += len(f.readlines())
        except OSError:
            continue
        found["descriptors"] += len(links)
        found["orphans"] += sum(link.startswith(directory) and link.endswith("(deleted)") for link in links)
        found["memory"] += int(status["RssAnon"].split()[0])
        found["shared"] = max(found["shared"], int(status["RssShmem"].split()[0]))
    entries = [e.stat() for e in os.scandir(directory) if e.is_file()]
    found["files"], found["disk"] = len(entries), sum(e.st_blocks for e in entries) // 2
    return found


if __name__ == "__main__":
    first = latest()
    if first is None:
        sys.exit(9)
    for number in range(first + 1, first + 1 + int(sys.argv[1])):
        save(number, int(sys.argv[2]))
        print(number, flush=True)
        if len(sys.argv) > 3 and str(number) in sys.argv[3].split(","):
            sys.stdin.readline()
