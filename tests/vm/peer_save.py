# SPDX-License-Identifier: BSD-3-Clause
# run: tool
"""Runs in the guest, under the shim: files of random bytes, each when the store has the one before. Prints their sums.

    peer_save.py LOG DIRECTORY (NAME MIB)...
"""
import hashlib
import os
import sys
import time

log, where, *files = sys.argv[1:]
for number, (name, size) in enumerate(zip(files[::2], files[1::2]), 1):
    digest = hashlib.sha256()
    with open(f"{where}/{name}", "wb", 0) as f:
        for _ in range(int(size)):
            data = os.urandom(1 << 20)
            digest.update(data)
            f.write(data)
    print(digest.hexdigest(), name, sep="  ", flush=True)
    for _ in range(600):
        with open(log, encoding="utf-8") as f:
            if f.read().count("the store has it") >= number:
                break
        time.sleep(0.1)
    else:
        sys.exit(f"{name} is not kept")
