# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints are kept in a pool (PORTUS_STORE) and come back from there.
# Right: each version byte for byte, with mode and times; a directory as a whole set; nothing that
# stands is replaced unless it is the beginning of its version; a pool that is full, missing or
# without its portusd costs no save.
# run: script needs=torch timeout=240
import hashlib
import json
import os
import shutil
import signal
import subprocess

from lib import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
TRAIN = """
import os, sys, torch
torch.manual_seed(1)
w = torch.randn(1 << 20)
os.umask(0o027)
os.makedirs("ck", exist_ok=True)
for step in map(int, sys.argv[1:]):
    for shard in range(3):
        torch.save({"step": step, "w": w + step + shard}, f"ck/shard{shard}.pt")
    torch.save({"step": step, "w": w * step}, "last.tmp.pt")
    os.replace("last.tmp.pt", "last.pt")
"""


# Each step has names of its own, and the last two stay; a directory is renamed when it is full,
# and when somebody says so.
ROTATE = """
import os, shutil, sys, torch
w = torch.randn(1 << 21)
for step in map(int, sys.argv[1:]):
    torch.save(w + step, f"step{step}.pt")
    if step >= 2: os.remove(f"step{step - 2}.pt")
    os.mkdir("tmp")
    for shard in range(2): torch.save(w * step + shard, f"tmp/{shard}.pt")
    print(step, flush=True)
    sys.stdin.readline()
    os.rename("tmp", f"checkpoint-{step}")
    if step >= 2: shutil.rmtree(f"checkpoint-{step - 2}")
"""


def ctl(*arguments, status=0, store=True):
    env = program.environment(trial.JOB, **({"PORTUS_STORE": POOL} if store else {}))
    done = subprocess.run([CTL, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == status, f"portusctl {' '.join(arguments)}: exit status {done.returncode}, "
                 f"not {status}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def versions(path):
    done = subprocess.run([CTL, "versions", "--store", POOL, "--json", path], capture_output=True, text=True,
                          check=False)
    return json.loads(done.stdout)["versions"] if done.returncode == 0 else []


def train(*steps, **more):
    env = program.environment(trial.JOB, "default", **{"PORTUS_STORE": POOL, "PORTUS_SAMPLE": "0", **more})
    out = program.run([program.python(), "-c", TRAIN, *map(str, steps)], D, env, 60)
    trial.expect(out.status == 0, out.how(), out)
    return out


def kept(path, count):
    """Waits until so many versions of path are in the pool."""
    trial.expect(agents.until(lambda: len(versions(path)) >= count, 20, 0.1),
                 f"{path}: {len(versions(path))} versions in the pool, not {count}")


def look(path):
    status = os.stat(path)
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest(), status.st_mode, status.st_mtime_ns, status.st_size


D = trial.fresh()
POOL = os.path.join(trial.fresh(), "pool")
CK, LAST = os.path.join(D, "ck"), os.path.join(D, "last.pt")
FILES = [LAST, *(f"{CK}/shard{i}.pt" for i in range(3))]

# No pool: one line, and the save is as ever.
out = train(1, PORTUS_LOG="warn")
trial.expect(agents.until(lambda: b"no pool" in ctl("status").encode(), 10), "nobody says that there is no pool")
shutil.rmtree(CK)
agents.kill(trial.JOB)

ctl("pool", "create", POOL, "256M", store=False)
trial.expect("EEXIST" not in ctl("pool", "create", POOL, "256M", status=1, store=False), "words, not names")
try:
    # Two steps: the shards in place, last.pt by os.replace.
    train(1)
    for path in FILES:
        kept(path, 1)
    first = {path: look(path) for path in FILES}
    commit = max(v["commit"] for path in FILES for v in versions(path))
    train(2)
    for path in FILES:
        kept(path, 2)
    second = {path: look(path) for path in FILES}
    trial.expect(all(first[p][0] != second[p][0] for p in FILES), "the steps are equal")
    print(ctl("ls"), ctl("pool", "info", POOL))
    trial.expect("0 damaged" in ctl("verify"), "damaged")

    # All is lost, and comes back; then the step before, elsewhere.
    shutil.rmtree(CK)
    os.unlink(LAST)
    ctl("restore", CK, LAST)
    trial.expect({path: look(path) for path in FILES} == second, "what came back is something else")
    trial.expect("is whole" in ctl("restore", CK), "restored twice")
    other = trial.fresh()
    ctl("restore", CK, LAST, "--version", str(commit), "--to", other)
    trial.expect({path: look(other + path) for path in FILES} == first, "the first step is something else")

    # A file that is short is completed; another one is left alone.
    os.truncate(LAST, 1000000)
    trial.expect("completed" in ctl("restore", LAST), "not completed")
    trial.expect(look(LAST) == second[LAST], "completed to something else")
    with open(LAST, "r+b") as f:
        f.write(b"changed")
    changed = look(LAST)
    ctl("restore", LAST, status=1)
    trial.expect(look(LAST) == changed, "replaced without --force")
    ctl("restore", LAST, "--force")
    trial.expect(look(LAST) == second[LAST], "not replaced by --force")

    # One that is being written is left alone, even empty; one that appears meanwhile, too.
    with open(LAST, "wb") as f:
        trial.expect("being written" in ctl("restore", LAST, "--force", status=1), "replaced under its writer")
        f.write(b"new")
    os.unlink(LAST)
    ctl("restore", LAST)
    trial.expect(look(LAST) == second[LAST], "not brought back")

    # A program is killed in mid-save: what it leaves is no version, and is completed.
    before = versions(LAST)
    half = f"import os, signal; f = open('last.pt', 'wb', buffering=0); f.write(b'x' * (2 << 20)); " \
           "os.kill(os.getpid(), signal.SIGKILL)"
    program.run([program.python(), "-c", half], D,
                program.environment(trial.JOB, "all", PORTUS_STORE=POOL), 60)
    trial.expect(agents.until(lambda: os.path.getsize(LAST) == 2 << 20, 10), "the agent does not finish")
    trial.expect(not agents.until(lambda: versions(LAST) != before, 1), "a half is kept as a version")
    ctl("restore", LAST, "--force")
    trial.expect(look(LAST) == second[LAST], "not brought back from a half")

    # A link is another name, and the file has not moved; nor has one that was exchanged back.
    os.mkdir(os.path.join(D, "snap"))
    os.link(LAST, os.path.join(D, "snap/last.pt"))
    env = program.environment(trial.JOB, "default", PORTUS_STORE=POOL)
    program.run([program.python(), "-c", "import os; os.rename('snap', 'snap1')"], D, env, 60)
    trial.expect(versions(LAST) == before, "a link took the versions away")
    shutil.rmtree(os.path.join(D, "snap1"))

    # Pinned, removed; by the portusd that is running.
    trial.expect(agents.stores(POOL), "no portusd runs")
    old = versions(LAST)[0]["commit"]
    ctl("pin", LAST, "--version", str(old))
    trial.expect([v["pinned"] for v in versions(LAST)] == [True, False], "not pinned")
    ctl("unpin", LAST, "--version", str(old))
    ctl("rm", LAST, "--version", str(old))
    trial.expect(len(versions(LAST)) == 1, "not removed")

    # portusd is killed; the next save finds another one, with all that was there.
    for pid in agents.stores(POOL):
        os.kill(pid, signal.SIGKILL)
    before = len(versions(CK))
    train(3)
    kept(LAST, 2)
    trial.expect(len(versions(CK)) > before, "what was there is not")
    trial.expect("0 damaged" in ctl("verify"), "damaged")

    # More than fits, if the store can follow: old versions go, the newest are there, and every save is as ever.
    train(*range(4, 24))
    third = {path: look(path) for path in FILES}
    for path in FILES:
        trial.expect(agents.until(lambda p=path: versions(p) and versions(p)[-1]["mtime_ns"] == look(p)[2], 20, 0.2),
                     f"{path}: its newest version is not in the pool")
    shutil.rmtree(CK)
    ctl("restore", CK)
    trial.expect({path: look(path) for path in FILES} == third, "another state")

    # Nothing supersedes these: the oldest go, of which the files are not there any more.
    env = program.environment(trial.JOB, "default", PORTUS_STORE=POOL, PORTUS_SAMPLE="0")
    p = program.start([program.python(), "-c", ROTATE, *map(str, range(12))], D, env, stdin=subprocess.PIPE)
    for step in range(12):
        trial.until_line(p, str(step))
        for shard in range(2):  # committed by the name that it has now, and renamed then
            kept(os.path.join(D, f"tmp/{shard}.pt"), 1)
        p.stdin.write(b"\n")
        p.stdin.flush()
        kept(os.path.join(D, f"checkpoint-{step}/1.pt"), 1)
    out = program.finish(p, 60)
    trial.expect(out.status == 0, out.how(), out)
    last = [os.path.join(D, name) for name in ("step11.pt", "checkpoint-11/0.pt", "checkpoint-11/1.pt")]
    for path in last:
        kept(path, 1)
    trial.expect(not versions(os.path.join(D, "tmp")), "versions are kept by names that are not theirs any more")
    fourth = {path: look(path) for path in last}
    shutil.rmtree(os.path.join(D, "checkpoint-11"))
    os.unlink(last[0])
    ctl("restore", last[0], os.path.join(D, "checkpoint-11"))
    trial.expect({path: look(path) for path in last} == fourth, "what came back after renames is something else")

    # A file that can never fit.
    with open(os.path.join(D, "w.py"), "w", encoding="ascii") as f:
        f.write("open('big.ckpt', 'wb').write(bytes(300 << 20))")
    env = program.environment(trial.JOB, "all", PORTUS_STORE=POOL)
    out = program.run([program.python(), "w.py"], D, env, 60)
    trial.expect(out.status == 0, out.how(), out)
    trial.expect(agents.until(lambda: "is full" in ctl("status"), 10), "nobody says that it is full")
    trial.expect(os.path.getsize(os.path.join(D, "big.ckpt")) == 300 << 20, "it is not saved")
    trial.expect(not versions(os.path.join(D, "big.ckpt")), "it is in the pool")
finally:
    trial.end_stores(POOL)
trial.expect("0 damaged" in ctl("verify"), "damaged after the end")
left = [name for _, _, names in os.walk(D) for name in names if ".portus-" in name]
trial.expect(not left, f"of restore is left: {left}")
