# SPDX-License-Identifier: BSD-3-Clause
# run: tool
"""Runs in the guest, under the shim: saves files, each when the store has the one before. Prints their sums, and
how long after its end each was in the store.

    peer_save.py LOG DIRECTORY random|torch (NAME MIB)...

random: random bytes; torch: by torch.save, the same each time.
"""
import hashlib
import os
import sys
import time

log, where, how, *files = sys.argv[1:]
if how == "torch":
    began = time.monotonic()
    import torch
    print(f"import torch took {time.monotonic() - began:.0f} s", flush=True)


def save(path, mib):
    if how == "torch":
        weights = {f"layers.{i}.weight": torch.arange(i, i + (1 << 18), dtype=torch.float32) for i in range(mib)}
        torch.save({"model": weights, "epoch": 3}, path)
        return
    data = [os.urandom(1 << 20) for _ in range(mib)]
    with open(path, "wb", 0) as f:
        for piece in data:
            f.write(piece)


def kept(number, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with open(log, encoding="utf-8") as f:
            if f.read().count("the store has it") >= number:
                return True
        time.sleep(0.004)
    return False


for number, (name, size) in enumerate(zip(files[::2], files[1::2]), 1):
    # The first one finds the store; an agent that was too late for it tries again with the next one, a minute later.
    for _ in range(3 if number == 1 else 1):
        save(f"{where}/{name}", int(size))
        closed = time.monotonic()
        if kept(number, 65):
            break
    else:
        sys.exit(f"{name} is not kept")
    print(f"kept {name} {size} MiB {(time.monotonic() - closed) * 1e3:.0f} ms after its end")
    with open(f"{where}/{name}", "rb") as f:
        print(hashlib.sha256(f.read()).hexdigest(), name, sep="  ", flush=True)
