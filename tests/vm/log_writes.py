# SPDX-License-Identifier: BSD-3-Clause
# A guest saves under the shim on ext4 and xfs on a disk that logs its writes. The disk is made as it was at POINTS
# points of that log, each with some of the writes since the last flush missing, mounted, and looked at. Right: what fsync
# had returned for is there; no step before the one that preceded it; nothing that a rename put there is torn. SEED
# repeats the points. A program that renames over an older file without fsync finds the older or the newer one, as ext4
# has it plainly.
# run: script root timeout=1200
import os
import random
import re
import subprocess

from lib import guest, log_writes, program, trial

POINTS = int(os.environ.get("POINTS", "40"))
SAVES = 10
UNSYNCED = 60  # of those: the journal is written once a second
LOOK = os.path.join(program.BUILD, "tests/vm/save")
NAMES = ("a.ckpt", "b.ckpt")


def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def logged(kind):
    """A directory with the log that such a guest leaves."""
    where = trial.fresh()
    for name in ("disk", "log"):
        with open(f"{where}/{name}", "wb") as f:
            f.truncate(400 << 20)
    g = guest.Guest(where, f"{guest.HERE}/log.sh", f"portus.build={program.BUILD} portus.kind={kind}",
                    disk=[f"{where}/disk", f"{where}/log"], again=True)
    done, wanted = 0, UNSYNCED if kind == "unsynced" else SAVES
    while done < wanted and (line := g.line(240)) is not None:
        done += line.startswith(("synced", "saved"))
    g.cut()
    trial.expect(done == wanted and any("captures checkpoints" in line for line in g.said), f"{kind}: {g.tail()}")
    return where


def right(kind, marks, found):
    """What is wrong with what was found, or None."""
    if kind == "unsynced":
        return "torn" if any(found.get(name) == 0 for name in NAMES) else None
    said = [re.fullmatch(r"(\w+)_(\S+)_(\d+)", mark) for mark in marks]
    synced = {m[2]: int(m[3]) for m in said if m and m[1] == "synced"}
    for name, step in synced.items():
        if found.get(name, 0) < step:
            return f"{name} of step {step} was synced"
    if any(found.get(name) == 0 for name in NAMES):
        return "torn"
    steps = [found.get(name, -1 if name == "b.ckpt" else 0) for name in NAMES]
    if max(steps) > 1 and abs(steps[0] - steps[1]) != 1:
        return f"steps {steps} were never there together"
    return None


def look(kind, copy, mount):
    done = run("mount", "-t", "xfs" if kind == "xfs" else "ext4", "-o", "loop" + (",nouuid" if kind == "xfs" else ""), copy, mount)
    if done.returncode:
        return done.stdout
    paths = [f"{mount}/ck/{name}" for name in NAMES]
    lines = run(LOOK, "look", *paths).stdout.split("\n")
    run("umount", mount)
    return {name: int(step) if step != "torn" else 0 for name, step in (line.split() for line in lines if line)}


def replayed(kind, seed):
    where = logged(kind)
    chance = random.Random(f"{seed} {kind}")
    image, mount = f"{where}/image", f"{where}/mnt"
    os.mkdir(mount)
    with open(image, "wb") as f:
        f.truncate(400 << 20)
    seen, log = set(), log_writes.Log(f"{where}/log")
    for marks, entry, copy in log_writes.states(log, image, chance, POINTS):
        found = look(kind, copy, mount)
        if isinstance(found, str):
            trial.fail(f"{kind}, entry {entry}: {found}")
        wrong = right(kind, marks, found)
        trial.expect(wrong is None, f"seed {seed}, {kind}, entry {entry} of {log.entries}, after {marks[-3:]}: {wrong}: {found}")
        seen.add(tuple(sorted(found.items())))
    print(f"{kind}: {POINTS} points of {log.entries} writes, {len(seen)} states of the files", flush=True)
    trial.expect(len(seen) > 2, "hardly any state was seen")
    for name in ("disk", "log", "image"):
        os.unlink(f"{where}/{name}")


seed = os.environ.get("SEED", str(os.getpid()))
print("seed", seed, flush=True)
for command in ("dmsetup", "mkfs.xfs"):
    if run("sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin command -v {command}").returncode:
        trial.skip(f"no {command}")
probe = os.path.join(trial.TOP, "probe")
os.mkdir(probe)
with open(probe + ".image", "wb") as f:
    f.truncate(16 << 20)
if run("mkfs.ext4", "-q", "-F", probe + ".image").returncode or run("mount", "-o", "loop", probe + ".image", probe).returncode:
    trial.skip("no loop device can be mounted")
run("umount", probe)
guest.needed()
replayed("ext4", seed)
replayed("unsynced", seed)
replayed("xfs", seed)
