# SPDX-License-Identifier: BSD-3-Clause
# Two guests: a program saves in one of them, with PORTUS_STORE=rdma://; portusd in the other pulls and commits; the first
# machine is destroyed, and another one restores. With a pool on devdax, on fsdax and in a
# file. Right: equal bytes.
# run: script by=check-vm timeout=1200
import os
import re

from lib import guest, pair, trial

guest.needed(rdma=True)

STORE = "rdma://10.9.2.1"
MIB = 12  # all of it fits the ring
SIZE = MIB << 20

directory = trial.fresh()
machines = pair.Pair(directory, "peer.sh", f"portus.key={directory}/key")
machines.key("alice")
machines.up("store")
kinds = os.environ.get("KINDS", "devdax fsdax file").split()
for kind in kinds:
    machines.do("store", f". {guest.HERE}/peer_store.sh; pool {kind} && serve {STORE}")
    machines.up("agent", machines.disk())
    # The first file finds the store, the second passes the ring while the store is there.
    lines = machines.do("agent", f". {guest.HERE}/peer_agent.sh; disk && saved {STORE} b.ckpt 2 a.ckpt {MIB}", 300)
    want = next(line.split()[0] for line in lines if line.endswith("  a.ckpt"))
    machines.cut("agent")
    machines.up("agent", machines.disk())
    machines.do("agent", f". {guest.HERE}/peer_agent.sh; disk && restored {STORE} /mnt/disk/ck/a.ckpt", 180)
    got = machines.do("agent", "sha256sum /mnt/disk/r/mnt/disk/ck/a.ckpt")[0].split()[0]
    lines = machines.do("store", f". {guest.HERE}/peer_store.sh; finish", 60)
    if got != want:
        machines.wrong(f"{kind}: other bytes", lines)
    moved = [re.search(r"(\d+) bytes were pulled and (\d+) pushed by RDMA, (\d+) came straight", line) for line in lines]
    pulled, pushed, straight = (max((int(m[n]) for m in moved if m), default=0) for n in (1, 2, 3))
    if pulled < SIZE or pushed < SIZE or not any(f": {SIZE} bytes, 0 of them from the file" in line for line in lines):
        machines.wrong(f"{kind}: {pulled} bytes were pulled by RDMA, {pushed} pushed", lines)
    if straight != (SIZE if kind == "devdax" else 0):
        machines.wrong(f"{kind}: {straight} bytes came straight into the pool", lines)
    machines.cut("agent")
machines.end()
