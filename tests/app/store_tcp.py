# SPDX-License-Identifier: BSD-3-Clause
# A store on another machine (PORTUS_STORE=tcp://HOST): torch.save, its directory lost, restored by another node.
# Right: each version byte for byte, pulled out of the ring while it is saved or read from the file; a directory as a
# whole set, followed when it is renamed; nobody sees what another key keeps, and each has its quota; what portusctl
# does to a pool it does to this one; of several stores the next one when the first is gone, and a restore from all.
# run: script needs=torch timeout=240
import os
import shutil
import signal
import subprocess

from lib import agents, far, program, trial

TRAIN = """
import os, sys, time, torch
torch.manual_seed(1)
w = torch.randn(1 << 21)
os.makedirs("ck", exist_ok=True)
for step in map(int, sys.argv[1:]):
    for shard in range(3):
        torch.save({"step": step, "w": w + step + shard}, f"ck/shard{shard}.pt")
    time.sleep(0.5)
    torch.save({"step": step, "w": w * step}, "last.tmp.pt")
    os.replace("last.tmp.pt", "last.pt")
    time.sleep(1)
"""


def train(directory, env, *steps):
    out = program.run([program.python(), "-c", TRAIN, *map(str, steps)], directory, env, 60)
    trial.expect(out.status == 0, f"training: {out.how()}", out)


def files(directory):
    return {os.path.join(top, name): far.digest(os.path.join(top, name))
            for top, _, names in os.walk(directory) for name in names}


store = far.Store(keys=("alice", "bob"), config="key bob bytes 40M sessions 4\n")
other = None
try:
    node = trial.fresh()
    ck, last = os.path.join(node, "ck"), os.path.join(node, "last.pt")
    train(node, store.environment(), 1, 2)
    store.kept(last, 1)
    for shard in range(3):
        store.kept(os.path.join(ck, f"shard{shard}.pt"), 2)
    trial.expect(any(line.endswith(", 0 of them from the file") for line in store.said().splitlines()),
                 f"nothing was pulled out of the ring: {store.said()}")
    trial.expect(agents.until(lambda: store.versions(ck)[-1]["settled"], 10), "the directory is not settled")
    before = files(node)
    trial.expect("damaged" in store.ctl("verify") and "last.pt" in store.ctl("ls", node), "ls or verify")

    # The node is lost; another one, of another job and with nothing of the first, has it back.
    agents.kill(trial.JOB)
    shutil.rmtree(node)
    store.ctl("restore", node, PORTUS_JOB=trial.JOB + "-other")
    trial.expect(files(node) == before, f"restored to something else: {files(node)} {before}")
    elsewhere = trial.fresh()
    store.ctl("restore", "--to", elsewhere, last)
    trial.expect(far.digest(elsewhere + last) == before[last], "restored elsewhere to something else")
    os.truncate(last, 1000001)
    trial.expect("completed" in store.ctl("restore", last) and files(node) == before, "not completed")

    # Another key's versions do not exist.
    number = store.versions(last)[0]["commit"]
    trial.expect(store.versions(who="bob") == [], "bob sees them")
    for words in (["restore", last], ["pin", last], ["rm", last, "--version", str(number)]):
        store.ctl(*words, who="bob", status=1)
    store.ctl("pin", last)
    trial.expect(store.versions(last)[-1]["pinned"], "not pinned")
    store.ctl("unpin", last)
    print(store.ctl("pool", "info", store.name))
    # What is imported comes back, once, and belongs to the key.
    for said in ("4 versions imported, 0 were there", "0 versions imported, 4 were there"):
        trial.expect(said in store.ctl("import", node), said)
    trial.expect(store.versions("/last.pt", who="bob") == [], "bob sees what is imported")
    store.ctl("restore", "--to", elsewhere, "/last.pt")
    trial.expect(far.digest(elsewhere + "/last.pt") == before[last], "what was imported comes back as something else")
    for v in store.versions("/last.pt") + store.versions("/ck"):
        store.ctl("rm", v["path"], "--version", str(v["commit"]))
    doctor = subprocess.run([far.CTL, "doctor", store.name, "tcp://127.0.0.1:1"], env=store.environment(mode=None),
                            capture_output=True, text=True, timeout=60, check=False)
    trial.expect(doctor.returncode == 1 and "nobody listens there" in doctor.stdout and "pulls: " in doctor.stdout
                 and "has the key of alice" in doctor.stdout, f"doctor: {doctor}")
    print(*[line for line in doctor.stdout.splitlines() if store.name in line], sep="\n")
    trial.expect(len(store.versions(ck)) == 6, "doctor has left something")

    # A directory that gets another name keeps its versions by that.
    train(node, store.environment(), 3)
    for shard in range(3):
        store.kept(os.path.join(ck, f"shard{shard}.pt"), 3)
    moved = os.path.join(node, "step3")
    out = program.run(["mv", ck, moved], node, store.environment(), 30)
    trial.expect(out.status == 0, out.how(), out)
    for shard in range(3):
        store.kept(os.path.join(moved, f"shard{shard}.pt"), 1)

    # bob's quota: older ones go for newer ones, his own.
    bob = trial.fresh()
    for step in range(4):
        with open(os.path.join(trial.TOP, "data"), "wb") as f:
            f.write(bytes([step]) * (15 << 20))
        out = program.run(["dd", "bs=4M", f"if={trial.TOP}/data", f"of={bob}/{step}.pt"], bob,
                          store.environment("bob", trial.JOB + "-bob"), 30)
        trial.expect(out.status == 0, out.how(), out)
        store.kept(os.path.join(bob, f"{step}.pt"), 1, "bob")
    trial.expect(len(store.versions(who="bob")) <= 2 and len(store.versions(last)) >= 1, f"bob has more than his quota: {store.versions(who='bob')} {store.versions(last)}")

    # Three files that are pulled at once, each of which fits: no more of them are kept than fit together.
    bob = trial.fresh()
    at_once = "import time\nopen('warm.pt', 'wb').write(bytes(2 << 20))\ntime.sleep(4)\nfs = [open(f'{i}.pt', 'wb') for i in range(3)]\nfor n in range(4):\n for f in fs: f.write(bytes([n]) * (4 << 20)); time.sleep(0.2)\n"
    out = program.run([program.python(), "-c", at_once], bob, store.environment("bob", trial.JOB + "-bob"), 30)
    trial.expect(out.status == 0, out.how(), out)
    agents.until(lambda: any(v["path"].startswith(bob) for v in store.versions(who="bob")), 20, 0.1)
    agents.kill(trial.JOB + "-bob")  # what is not kept by now never is
    taken = sum(v["stored"] for v in store.versions(who="bob"))
    trial.expect(0 < taken <= 40 << 20, f"bob has {taken} bytes: {store.versions(who='bob')}")

    # Of two stores the first keeps, then the other when it is killed; a restore asks both.
    other = far.Store()
    shutil.copyfile(store.key("alice"), other.key("alice"))
    shutil.copyfile(store.keys, other.keys)
    other.end()
    other.start()
    both = {"PORTUS_STORE": f"{store.name},{other.name}"}
    agents.kill(trial.JOB)
    two = trial.fresh()
    train(two, store.environment(**both), 4)
    store.kept(os.path.join(two, "last.pt"), 1)
    store.process.send_signal(signal.SIGKILL)
    store.process.wait()
    train(two, store.environment(**both), 5)
    other.kept(os.path.join(two, "ck/shard2.pt"), 1)
    train(two, store.environment(**both), 6)
    other.kept(os.path.join(two, "last.pt"), 1)
    store.start()
    now = files(two)
    shutil.rmtree(two)
    said = store.ctl("restore", two, **both)
    trial.expect(files(two) == now, f"restored to something else: {said}")
    os.unlink(last)
    store.ctl("restore", last, **both)
finally:
    for job in ("", "-bob", "-other"):
        agents.kill(trial.JOB + job)
    for one in (store, other):
        if one is not None and one.process.poll() is None:
            one.end(signal.SIGKILL)
