# SPDX-License-Identifier: BSD-3-Clause
# Two guests, soft-RoCE, a pool on devdax that is pulled into straight; and what goes wrong in the middle of a save that is
# written twice onto one path, with a ring that is used again meanwhile: either side stopped, killed, without power; the
# network cut, lossy, out of order. Right: each save ends in time, with its bytes in its file; each version has the bytes
# of one save; soon after all is well again the next one is kept.
# run: script by=check-vm timeout=3000
import os
import sys
import time

from lib import guest, pair, program, trial

if not os.path.exists(f"{program.BUILD}/portus_rdma.so"):
    trial.skip("built without rdma-core (sh scripts/install-deps guest)")
try:
    guest.prepare()
except guest.Missing as e:
    trial.skip(f"no guest: {e}")

BOOT, STORE, MIB, SAVE_S, AGAIN_S = 240, "rdma://10.9.2.1", 12, 60, 90
AGENT, PORTUSD = f". {guest.HERE}/peer_agent.sh; ", f". {guest.HERE}/peer_store.sh; "
rows = []


def wrong(text, lines=()):
    print(*lines, sep="\n", file=sys.stderr)
    for g in machines.guests.values():
        print(g.tail(), file=sys.stderr)
    machines.end()
    trial.fail(text)


def do(role, text, seconds=120, status=0):
    got, lines = machines.ask(role, text, seconds)
    if got != status:
        wrong(f"{role}: {text}: {got}", lines)
    return lines


def up(role, disk=None):
    lines = machines.boot(role, disk).until("ready", BOOT)
    if lines is None:
        wrong(f"{role} does not boot")
    if not any(line.startswith("soft-RoCE") for line in lines):
        machines.end()
        trial.skip("no soft-RoCE in the guest")


def look(what):
    """The versions that there are."""
    lines = do("store", PORTUSD + "pure /dev/dax0.0 /mnt/disk/ck/f.ckpt", 240)
    for line in lines:
        if line.startswith("is ") and (len(line.split()[1]) != 1 or float(line.split()[2]) != MIB):
            wrong(f"{what}: a version is mixed, or short: {line}", lines)


def fault(name, bad, good, after=0.0, saves=True):
    """saves False: the machine that saves is gone."""
    do("agent", AGENT + f"save {STORE} f.ckpt ab {MIB}")
    time.sleep(1.0)
    began = time.monotonic()
    bad()
    took = ""
    if saves:
        lines = do("agent", AGENT + f"ended {SAVE_S}", SAVE_S + 60)
        took = next((line.split()[1] for line in lines if line.startswith("took ")), None)
        file = do("agent", AGENT + "python3 -S $FAULT look /mnt/disk/ck/f.ckpt")[-1]
        if took is None or not file.startswith(f"is b {float(MIB)} "):
            wrong(f"{name}: the save: {took}, {file}", lines)
    time.sleep(max(0, began + after - time.monotonic()))
    good()
    began = time.monotonic()
    do("agent", AGENT + f"again {STORE} {AGAIN_S}", AGAIN_S + 90)
    rows.append(f"| {name} | {took} | {time.monotonic() - began:.1f} |")
    print(rows[-1], flush=True)
    look(name)


def link(up_):
    return lambda: machines.guests["agent"].qemu.ask("set_link", name="n0", up=up_)


def queue(text):
    """Of the network, on both sides."""
    for role in ("store", "agent"):
        do(role, "tc qdisc del dev eth0 root 2>/dev/null; " + (f"tc qdisc add dev eth0 root netem {text}" if text else "true"))


def stop(role, whom, number):
    return lambda: do(role, f"pkill -{number} -x {whom}; true")


def serve():
    do("store", PORTUSD + f"POOL=/dev/dax0.0; serve {STORE}")


def without_power(role):
    machines.cut(role)


def power_of_store():
    up("store")
    do("store", "ls /dev/dax0.0")
    serve()


def power_of_agent():
    up("agent", disk)
    do("agent", AGENT + "disk")


directory = trial.fresh()
machines = pair.Pair(directory, "peer.sh", f"portus.key={directory}/key")
if os.spawnv(os.P_WAIT, f"{program.BUILD}/portusctl", ["portusctl", "key", "alice", f"{directory}/key"]) != 0:
    trial.fail("no key")
disk = machines.disk()
up("store")
up("agent", disk)
do("store", PORTUSD + f"pool devdax && serve {STORE}")
do("agent", AGENT + f"disk && again {STORE} {AGAIN_S}", 200)
FAULTS = {
    "stop3": lambda: fault("SIGSTOP of portusd, 3 s", stop("store", "portusd", "STOP"), stop("store", "portusd", "CONT"), 3),
    "stop18": lambda: fault("SIGSTOP of portusd, 18 s", stop("store", "portusd", "STOP"), stop("store", "portusd", "CONT"), 18),
    "kill": lambda: fault("SIGKILL of portusd (and another one)", stop("store", "portusd", "KILL"), serve),
    "carrier": lambda: fault("SIGKILL of the carrier", stop("agent", "portus-carrier", "KILL"), lambda: None),
    "carrier18": lambda: fault("SIGSTOP of the carrier, 18 s", stop("agent", "portus-carrier", "STOP"),
                               stop("agent", "portus-carrier", "CONT"), 18),
    "agent": lambda: fault("SIGKILL of the agent", stop("agent", "portus-agent", "KILL"), lambda: None),
    "loss5": lambda: fault("5 % of the packets lost", lambda: queue("loss 5%"), lambda: queue("")),
    "loss30": lambda: fault("30 % of the packets lost", lambda: queue("loss 30%"), lambda: queue("")),
    "order": lambda: fault("a quarter out of order", lambda: queue("delay 10ms reorder 75% 25%"), lambda: queue("")),
    "down1": lambda: fault("link down for 1 s", link(False), link(True), 1),
    "down10": lambda: fault("link down for 10 s", link(False), link(True), 10),
    "down100": lambda: fault("link down for 100 s", link(False), link(True), 100),
    "store": lambda: fault("power off of the store", lambda: without_power("store"), power_of_store),
    "node": lambda: fault("power off of the node", lambda: without_power("agent"), power_of_agent, saves=False),
}
for which in os.environ.get("FAULTS", " ".join(FAULTS)).split():
    FAULTS[which]()
lines = do("store", PORTUSD + "finish", 60)
if len(rows) == len(FAULTS) and not any("came straight into the pool" in line and not line.endswith(" 0 came straight into the pool") for line in lines):
    wrong("nothing came straight into the pool", lines)
print("fault | save s | kept again s", *rows, sep="\n")
machines.end()
