# SPDX-License-Identifier: BSD-3-Clause
# In a guest a disk fails all writes for seconds: while checkpoints are drained to it (ext4, xfs), and while portusd has
# a pool on it, in a file. Right: a save of which both fsyncs returned 0 is on the disk after it was mounted anew, or a
# later one is, and whole; the program is told of the others. With the pool: the program is told nothing, and its files are
# right; portusd lives, and says it; what the pool holds afterwards is whole.
# run: script by=check-vm timeout=900
import os
import re
import subprocess

from lib import guest, program, trial


def boot(kind, do):
    where = trial.fresh()
    disks = [f"{where}/disk", f"{where}/other"]
    for disk in disks:
        with open(disk, "wb") as f:
            f.truncate(400 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", disks[1]], check=True,
                   env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
    g = guest.Guest(where, f"{guest.HERE}/disk_errors.sh", f"portus.build={program.BUILD} portus.kind={kind} portus.do={do}",
                    disk=disks, again=True)
    lines = g.until("exit ", 400)
    g.cut()
    trial.expect(lines and lines[-1] == "exit 0", f"{kind}, {do}: {g.tail()}")
    trial.expect(any("captures checkpoints" in line for line in lines), f"nothing is captured: {g.tail()}")
    for disk in disks:
        os.unlink(disk)
    return lines


def drained(kind):
    synced, failed, counts = {}, 0, [0, 0]
    for line in boot(kind, "drain"):
        if found := re.fullmatch(r"synced (\S+) (\d+)", line):
            synced[found[1]] = int(found[2])
            counts[0] += 1
        elif line.startswith("failed"):
            failed += 1
        elif found := re.fullmatch(r"disk (\S+) (\S+)", line):
            trial.expect(found[2] != "torn" and int(found[2]) >= synced.get(found[1], 0), f"{kind}: {line}, and synced: {synced}")
            counts[1] += 1
    print(f"{kind}: {counts[0]} saves synced, {failed} failed, {counts[1]} files looked at", flush=True)
    trial.expect(failed and counts[0] and counts[1] >= 4, f"{kind}: the errors came at the wrong time")


def pool():
    lines = boot("ext4", "pool")
    said = [line for line in lines if line.startswith("portusd: ")]
    kept = [line for line in lines if line.startswith("kept ")]
    found = [line for line in lines if line.startswith("found ")]
    failed = [line for line in lines if line.startswith("failed")]
    disk = dict(line.split()[1:] for line in lines if line.startswith("disk "))
    synced = {line.split()[1]: int(line.split()[2]) for line in lines if line.startswith("synced ")}
    print(f"pool: {len(synced)} files synced, {len(kept) - 1} versions before, {len(found) - 1} after; said: {said}", flush=True)
    trial.expect(not failed, f"the program is told: {failed[:3]}")
    trial.expect("portusd lives" in lines, f"portusd is gone: {said}")
    trial.expect(all(int(disk[name]) >= step for name, step in synced.items()), f"{disk}, synced {synced}")
    trial.expect(0 < len(said) < 10, f"said: {said[:12]}")
    trial.expect(found and found[0].startswith("found free"), f"the pool is damaged: {found}")


for command in ("dmsetup", "mkfs.xfs"):
    if subprocess.run(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin command -v {command}"], stdout=subprocess.DEVNULL,
                      check=False).returncode:
        trial.skip(f"no {command} (sh scripts/install-deps guest)")
guest.needed()
drained("ext4")
drained("xfs")
pool()
