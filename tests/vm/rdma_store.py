# SPDX-License-Identifier: BSD-3-Clause
# Two guests: a program saves in one of them, with PORTUS_STORE=rdma://; portusd in the other pulls and commits; the first
# machine is destroyed, and another one restores. With a pool on devdax; `make check-vm`: on fsdax and in a file, too. Right:
# equal bytes.
# run: script by=check-vm timeout=1200
import os
import re
import sys

from lib import guest, pair, program, trial

if not os.path.exists(f"{program.BUILD}/portus_rdma.so"):
    trial.skip("built without rdma-core (sh scripts/install-deps guest)")
try:
    guest.prepare()
except guest.Missing as e:
    trial.skip(f"no guest: {e}")

BOOT, STORE = 240, "rdma://10.9.2.1"
MIB = 12  # all of it fits the ring
SIZE = MIB << 20


def wrong(text, lines=()):
    print("\n".join(lines), file=sys.stderr)
    for g in machines.guests.values():
        print(g.tail(), file=sys.stderr)
    machines.end()
    trial.fail(text)


def do(role, text, seconds=120):
    status, lines = machines.ask(role, text, seconds)
    print(f"{role}: {text[:100]}: {status}", *lines[-12:], sep="\n    ", flush=True)
    if status != 0:
        wrong(f"{role}: {text}: {status}", lines)
    return lines


def up(role, disk=None):
    lines = machines.boot(role, disk).until("ready", BOOT)
    if lines is None:
        wrong(f"{role} does not boot")
    if not any(line.startswith("soft-RoCE") for line in lines):
        machines.end()
        trial.skip("no soft-RoCE in the guest")


directory = trial.fresh()
machines = pair.Pair(directory, "peer.sh", f"portus.key={directory}/key")
program_key = [f"{program.BUILD}/portusctl", "key", "alice", f"{directory}/key"]
if os.spawnv(os.P_WAIT, program_key[0], program_key) != 0:
    trial.fail("no key")
up("store")
kinds = os.environ.get("KINDS", "devdax fsdax file").split()
for kind in kinds:
    do("store", f". {guest.HERE}/peer_store.sh; pool {kind} && serve {STORE}")
    up("agent", machines.disk())
    # The first file finds the store, the second passes the ring while the store is there.
    lines = do("agent", f". {guest.HERE}/peer_agent.sh; disk && saved {STORE} b.ckpt 2 a.ckpt {MIB}", 300)
    want = next(line.split()[0] for line in lines if line.endswith("  a.ckpt"))
    machines.cut("agent")
    up("agent", machines.disk())
    do("agent", f". {guest.HERE}/peer_agent.sh; disk && restored {STORE} /mnt/disk/ck/a.ckpt", 180)
    got = do("agent", "sha256sum /mnt/disk/r/mnt/disk/ck/a.ckpt")[0].split()[0]
    lines = do("store", f". {guest.HERE}/peer_store.sh; finish", 60)
    if got != want:
        wrong(f"{kind}: other bytes", lines)
    moved = [re.search(r"(\d+) bytes were pulled and (\d+) pushed by RDMA, (\d+) came straight", line) for line in lines]
    pulled, pushed, straight = (max((int(m[n]) for m in moved if m), default=0) for n in (1, 2, 3))
    if pulled < SIZE or pushed < SIZE or not any(f": {SIZE} bytes, 0 of them from the file" in line for line in lines):
        wrong(f"{kind}: {pulled} bytes were pulled by RDMA, {pushed} pushed", lines)
    if straight != (SIZE if kind == "devdax" else 0):
        wrong(f"{kind}: {straight} bytes came straight into the pool", lines)
    machines.cut("agent")
machines.end()
