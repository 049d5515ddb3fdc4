# SPDX-License-Identifier: BSD-3-Clause
# In a guest: f2fs, btrfs, NFS from a kernel's server and from NFS-Ganesha, with PORTUS_SHARED and without, a bind mount, a
# symbolic link to a directory, a directory that is mounted when somebody goes there (autofs); and an NFS server that hangs.
# Right: as plainly, captured where leases are to be had and not on NFS unless it is asked for, where one line says so; while
# the server hangs other programs of the job save, and what waited for it is whole in the end.
# run: script by=check-vm timeout=5400
import os
import re

from lib import guest, program, trial

guest.needed()


def boot(do):
    where = trial.fresh()
    disks = [f"{where}/disk", f"{where}/other"]
    for disk in disks:
        with open(disk, "wb") as f:
            f.truncate(400 << 20)
    g = guest.Guest(where, f"{guest.HERE}/mounts.sh", f"portus.build={program.BUILD} portus.do={do}", disk=disks, again=True)
    said = g.until("exit ", 1500)
    g.cut()
    trial.expect(said and said[-1] == "exit 0", g.tail())
    for disk in disks:
        os.unlink(disk)
    return said


lines = boot("nfs") + boot("ganesha") + boot("autofs") + boot("local")
print("\n".join(lines), flush=True)
wrong = [line for line in lines if line.startswith("differs")]
trial.expect(not wrong, "\n".join(lines))
captured = {}
for line in lines:
    if found := re.fullmatch(r"same (\S+) (\w+), captured (\d+)", line):
        captured.setdefault(found[1], {})[found[2]] = int(found[3])
missing = [line for line in lines if line.startswith("missing")]
for kind, counts in captured.items():
    total = sum(counts.values())
    if kind in ("nfs", "ganesha"):
        trial.expect(total == 0, f"{kind}: captured unasked: {counts}")
        trial.expect(any(re.match(rf"says {kind} .*is nfs: written as usual.*PORTUS_SHARED=1", line) for line in lines), f"{kind}: not said")
    else:
        trial.expect(total >= len(counts), f"{kind}: captured too few: {counts}")
wanted = {"f2fs", "btrfs", "bind", "symlink", "autofs", "ganesha"} - {word.removeprefix("mkfs.") for line in missing for word in line.split()}
trial.expect(wanted <= captured.keys(), f"only {captured.keys()} of {wanted}")
if "nfs" in captured:
    free = next((re.fullmatch(r"free ended 0 after (\d+) s, captured [1-9]\d* file", line) for line in lines if line.startswith("free")), None)
    trial.expect(free, "a hung server hangs a save elsewhere")
    trial.expect("status ended 0" in lines and "hung ended 0" in lines, "while a server hangs, or after it")
    sums = {line.split()[0]: line.split()[1] for line in lines if line.startswith(("hung ", "right ")) and "ended" not in line}
    trial.expect(len(sums) == 2 and sums["hung"] == sums["right"], f"what waited for the server: {sums}")
