# SPDX-License-Identifier: BSD-3-Clause
"""A program to be killed, and the states that a plain run of it passes through.

    python3 writer.py OPERATIONS        a JSON list of lists, or @FILE

It does one operation after the other, and says the number of each on standard
output as soon as it is done. `states` is the same list, run on paper.
"""
import json
import os
import random
import sys

BASE = random.Random(1).randbytes(4 << 20)


# Of these kinds are the operations of this program and of tests/kill/saves.c.
OPENS, WRITES, PATCHES = ("open", "fopen"), ("write", "writev", "fwrite"), ("patch", "fpatch")


def data(seed, n):
    """n bytes that depend on seed and place; none is a long run of zeros."""
    start = seed * 40961 % (1 << 20)
    piece = BASE[start:start + n]
    while len(piece) < n:
        piece += BASE[:n - len(piece)]
    return piece


def program(steps, large=6 << 20):
    """A training program's life: directories of shards, a pointer, the step before deleted."""
    ops = []
    for s in range(steps):
        ops += [["mkdir", f"s{s}"]]
        ops += [["open", f"s{s}/model.ckpt"], ["write", large + s, 10 * s], ["write", 100, 10 * s + 1],
                ["write", large // 2, 10 * s + 2], ["close"]]
        ops += [["open", f"s{s}/optimizer.ckpt"], ["write", 55, 3], ["write", large, 10 * s + 4],
                ["patch", 55, 10 * s + 5, 0], ["write", large // 3, 10 * s + 6], ["close"]]
        ops += [["open", f"s{s}/meta.json"], ["write", 300, 10 * s + 7], ["close"]]
        ops += [["open", "latest.new"], ["write", 9, s], ["close"], ["rename", "latest.new", "latest"]]
        ops += [["open", f"turn{s % 2}.ckpt"], ["write", large, 10 * s + 8], ["close"]]
        if s:
            ops += [["unlink", f"s{s - 1}/{name}"] for name in ("model.ckpt", "optimizer.ckpt", "meta.json")]
            ops += [["rmdir", f"s{s - 1}"]]
    return ops


def states(ops):
    """[{name: bytes, or None for a directory}] before each operation and after the last."""
    now, path, at, out = {}, None, 0, [{}]
    for op, *rest in ops:
        now = dict(now)
        if op == "mkdir":
            now[rest[0]] = None
        elif op in ("unlink", "rmdir"):
            del now[rest[0]]
        elif op == "rename":
            old, new = rest
            now = {new + n[len(old):] if n == old or n.startswith(old + "/") else n: v for n, v in now.items()
                   if n != new}
        elif op in OPENS:
            path, at = rest[0], 0
            now[path] = b""
        elif op in WRITES or op in PATCHES:
            place = at if op in WRITES else rest[2]
            old, new = now[path], data(rest[1], rest[0])
            now[path] = old[:place] + new + old[place + len(new):]
            at += len(new) if op in WRITES else 0
        elif op == "truncate":
            now[path] = now[path][:rest[0]].ljust(rest[0], b"\0")
        out.append(now)
    return out


def look(directory):
    """The state on disk."""
    found = {}
    for top, dirs, files in os.walk(directory):
        where = os.path.relpath(top, directory)
        for name in dirs:
            found[os.path.normpath(os.path.join(where, name))] = None
        for name in files:
            with open(os.path.join(top, name), "rb") as f:
                found[os.path.normpath(os.path.join(where, name))] = f.read()
    return found


def passed_through(ops, all_states, disk, least=0):
    """
    The number of operations after which a plain run looks like disk, or None. A
    write may be there in part, from its begin on; a file that comes into being
    later may be there already, empty.
    """
    for k in range(least, len(all_states)):
        state = all_states[k]
        later = {op[1] for op in ops[k:] if op[0] in (*OPENS, "mkdir")}
        extra = {n for n in disk if n not in state and disk[n] == b"" and n in later}
        seen = {n: v for n, v in disk.items() if n not in extra}
        if seen.keys() != state.keys():
            continue
        wrong = [n for n in state if seen[n] != state[n]]
        if not wrong or k < len(ops) and ops[k][0] in WRITES + PATCHES and len(wrong) == 1 \
                and _partly(seen[wrong[0]], state[wrong[0]], all_states[k + 1].get(wrong[0])):
            return k
    return None


def _partly(seen, before, after):
    """Whether seen is before with the first bytes of what leads to after."""
    if None in (seen, before, after) or not len(before) <= len(seen) <= len(after):
        return False
    same = next((i for i in range(0, len(seen), 4096) if seen[i:i + 4096] != after[i:i + 4096]), len(seen))
    while same < len(seen) and seen[same] == after[same]:
        same += 1
    return seen[same:] == before[same:] if same < len(before) else same == len(seen)


def main():
    text = sys.argv[1]
    if text.startswith("@"):
        with open(text[1:], encoding="ascii") as f:
            text = f.read()
    ops = json.loads(text)
    pieces = {(op[1], op[2]): data(op[2], op[1]) for op in ops if op[0] in ("write", "patch")}
    os.write(1, b"ready\n")
    fd = -1
    for number, (op, *rest) in enumerate(ops):
        if op == "open":
            fd = os.open(rest[0], os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        elif op == "write":
            assert os.write(fd, pieces[rest[0], rest[1]]) == rest[0]
        elif op == "patch":
            assert os.pwrite(fd, pieces[rest[0], rest[1]], rest[2]) == rest[0]
        elif op == "close":
            os.close(fd)
        elif op == "fsync":
            os.fsync(fd)
        elif op == "pause":  # until the test goes on
            os.write(1, b"pause\n")
            os.read(0, 1)
        else:
            getattr(os, op)(*rest)
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main()
