# SPDX-License-Identifier: BSD-3-Clause
# Two guests: torch.save in one of them, with PORTUS_STORE=rdma://; portusd in the other pulls and commits; the first
# machine is destroyed, and another one restores. With a pool on devdax, on fsdax and in a file. Right: equal bytes, and
# those of the same torch.save on this machine. Says what processor time each side took. On emulated processors `import torch`
# alone takes minutes: HOW=random saves without, KINDS says into which pools.
# run: script by=check-vm timeout=3000
import os
import re
import subprocess

from lib import far, guest, pair, program, trial

guest.needed(rdma=True)

STORE = "rdma://10.9.2.1"
MIB = 12  # all of it fits the ring
FILES = f"b.pt 2 a.pt {MIB}"  # the first finds the store, the second passes the ring while the store is there
HOW = os.environ.get("HOW", "torch" if os.path.exists(program.python()) else "random")
PYTHON = f"PYTHON={program.python()}" if HOW == "torch" else ""


def here():
    """What this machine's torch.save makes of the second one."""
    where = trial.fresh()
    with open(f"{where}/log", "w", encoding="ascii") as f:
        f.write("the store has it\n" * 2)  # nobody waits
    subprocess.run([program.python(), f"{guest.HERE}/peer_save.py", f"{where}/log", where, "torch", *FILES.split()],
                   env=program.environment(trial.JOB), check=True)
    return far.digest(f"{where}/a.pt")


def used():
    return {role: machines.used(role) for role in ("store", "agent")}


def cost(what, mib, before):
    """The processor time since then, of both sides."""
    for role, then in before.items():
        now = machines.used(role)
        print(f"{what}: {role}, s of a processor a GiB:",
              ", ".join(f"{name} {(value - then.get(name, 0)) * 1024 / mib:.0f}" for name, value in sorted(now.items())), flush=True)


right = here() if HOW == "torch" else None
directory = trial.fresh()
machines = pair.Pair(directory, "peer.sh", f"portus.key={directory}/key")
machines.key("alice")
machines.up("store")
kinds = os.environ.get("KINDS", "devdax fsdax file").split()
for kind in kinds:
    machines.do("store", f". {guest.HERE}/peer_store.sh; pool {kind} && serve {STORE}")
    machines.up("agent", machines.disk())
    before = used()
    lines = machines.do("agent", f". {guest.HERE}/peer_agent.sh; disk && {PYTHON} saved {STORE} {HOW} {FILES}", 900)
    if HOW == "random":
        cost(f"{kind}: saved", MIB + 2, before)
    want = next(line.split()[0] for line in lines if line.endswith("  a.pt"))
    machines.cut("agent")
    machines.up("agent", machines.disk())
    before = used()
    machines.do("agent", f". {guest.HERE}/peer_agent.sh; disk && restored {STORE} /mnt/disk/ck/a.pt", 180)
    cost(f"{kind}: restored", MIB, before)
    got = machines.do("agent", "sha256sum /mnt/disk/r/mnt/disk/ck/a.pt")[0].split()[0]
    lines = machines.do("store", f". {guest.HERE}/peer_store.sh; finish", 60)
    if got != want or right not in (None, want):
        machines.wrong(f"{kind}: other bytes", lines)
    moved = [re.search(r"(\d+) bytes were pulled and (\d+) pushed by RDMA, (\d+) came straight", line) for line in lines]
    pulled, pushed, straight = (max((int(m[n]) for m in moved if m), default=0) for n in (1, 2, 3))
    taken = [re.search(r"commit \d+: (\d+) bytes, (\d+) of them from the file", line) for line in lines]
    # What torch.save writes before its first large write is not in the ring.
    ring = any(int(m[1]) >= MIB << 20 and int(m[2]) < 65536 for m in taken if m)
    if pulled < MIB << 20 or pushed < MIB << 20 or not ring:
        machines.wrong(f"{kind}: {pulled} bytes were pulled by RDMA, {pushed} pushed", lines)
    if straight < (MIB << 20) * 0.9 if kind == "devdax" else straight > 0:
        machines.wrong(f"{kind}: {straight} bytes came straight into the pool", lines)
    machines.cut("agent")
machines.end()
