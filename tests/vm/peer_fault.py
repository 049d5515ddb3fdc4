# SPDX-License-Identifier: BSD-3-Clause
# run: tool
"""Runs in a guest, for vm/rdma_faults.

    peer_fault.py save PATH LETTERS MIB     writes the file once of each letter; says how long that took
    peer_fault.py look FILE...              of which letters each is, and how many MiB
"""
import sys
import time

if sys.argv[1] == "save":
    began = time.monotonic()
    for letter in sys.argv[3]:
        with open(sys.argv[2], "wb", 0) as f:
            for _ in range(int(sys.argv[4])):
                f.write(letter.encode() * (1 << 20))
        time.sleep(0.05)
    print(f"took {time.monotonic() - began:.1f}", flush=True)
else:
    for name in sys.argv[2:]:
        with open(name, "rb") as f:
            data = f.read()
        print("is", "".join(sorted(chr(b) for b in set(data))), len(data) / (1 << 20), name)
