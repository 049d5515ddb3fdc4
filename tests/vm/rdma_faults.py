# SPDX-License-Identifier: BSD-3-Clause
# Two guests, soft-RoCE, a pool on devdax that is pulled into straight; and what goes wrong in the middle of a save that is
# written twice onto one path, with a ring that is used again meanwhile: either side stopped, killed, without power; the
# network cut, lossy, out of order. Right: each save ends in time, with its bytes in its file; each version has the bytes
# of one save; soon after all is well again the next one is kept.
# run: script by=check-vm timeout=3000
import os
import time

from lib import guest, pair, trial

guest.needed(rdma=True)

STORE, MIB, SAVE_S, AGAIN_S = "rdma://10.9.2.1", 12, 60, 90
AGENT, PORTUSD = f". {guest.HERE}/peer_agent.sh; ", f". {guest.HERE}/peer_store.sh; "
rows = []


def look(what):
    """The versions that there are."""
    lines = machines.do("store", PORTUSD + "pure /dev/dax0.0 /mnt/disk/ck/f.ckpt", 240)
    for line in lines:
        if line.startswith("is ") and (len(line.split()[1]) != 1 or float(line.split()[2]) != MIB):
            machines.wrong(f"{what}: a version is mixed, or short: {line}", lines)


def fault(name, bad, good, after=0.0, saves=True):
    """saves False: the machine that saves is gone."""
    machines.do("agent", AGENT + f"save {STORE} f.ckpt ab {MIB}")
    time.sleep(1.0)
    began = time.monotonic()
    bad()
    took = ""
    if saves:
        lines = machines.do("agent", AGENT + f"ended {SAVE_S}", SAVE_S + 60)
        took = next((line.split()[1] for line in lines if line.startswith("took ")), None)
        file = machines.do("agent", AGENT + "python3 -S $FAULT look /mnt/disk/ck/f.ckpt")[-1]
        if took is None or not file.startswith(f"is b {float(MIB)} "):
            machines.wrong(f"{name}: the save: {took}, {file}", lines)
    time.sleep(max(0, began + after - time.monotonic()))
    good()
    began = time.monotonic()
    machines.do("agent", AGENT + f"again {STORE} {AGAIN_S}", AGAIN_S + 90)
    rows.append(f"| {name} | {took} | {time.monotonic() - began:.1f} |")
    print(rows[-1], flush=True)
    look(name)


def link(up):
    return lambda: machines.guests["agent"].qemu.ask("set_link", name="n0", up=up)


def queue(text):
    """Of the network, on both sides."""
    for role in ("store", "agent"):
        machines.do(role, "tc qdisc del dev eth0 root 2>/dev/null; " + (f"tc qdisc add dev eth0 root netem {text}" if text else "true"))


def stop(role, whom, number):
    return lambda: machines.do(role, f"pkill -{number} -x {whom}; true")


def serve():
    machines.do("store", PORTUSD + f"POOL=/dev/dax0.0; serve {STORE}")


def power_of_store():
    machines.up("store")
    machines.do("store", "ls /dev/dax0.0")
    serve()


def power_of_agent():
    machines.up("agent", disk)
    machines.do("agent", AGENT + "disk")


directory = trial.fresh()
machines = pair.Pair(directory, "peer.sh", f"portus.key={directory}/key")
machines.key("alice")
disk = machines.disk()
machines.up("store")
machines.up("agent", disk)
machines.do("store", PORTUSD + f"pool devdax && serve {STORE}")
machines.do("agent", AGENT + f"disk && again {STORE} {AGAIN_S}", 200)
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
    "store": lambda: fault("power off of the store", lambda: machines.cut("store"), power_of_store),
    "node": lambda: fault("power off of the node", lambda: machines.cut("agent"), power_of_agent, saves=False),
}
for which in os.environ.get("FAULTS", " ".join(FAULTS)).split():
    FAULTS[which]()
lines = machines.do("store", PORTUSD + "finish", 60)
if len(rows) == len(FAULTS) and not any("came straight into the pool" in line and not line.endswith(" 0 came straight into the pool") for line in lines):
    machines.wrong("nothing came straight into the pool", lines)
print("fault | save s | kept again s", *rows, sep="\n")
machines.end()
