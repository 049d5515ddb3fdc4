# SPDX-License-Identifier: BSD-3-Clause
# A system portusd under a systemd that runs, with the units that `make install` brings: in a guest, in a PID namespace of its
# own. Right: it runs as a user that exists only for it, keeps what a user saves and gives it back to nobody else, speaks to the journal,
# reads its limits again, is started again when it is killed and when it hangs, is started by its socket, and ends cleanly.
# run: script by=check-vm timeout=1200
import os
import subprocess

from lib import guest, program, trial

guest.needed()
if not os.path.exists("/lib/systemd/systemd"):
    trial.skip("no systemd here")
where = trial.fresh()
root, disk = os.path.join(where, "root"), os.path.join(where, "disk")
subprocess.run(["make", "-s", "-C", os.path.dirname(os.path.dirname(guest.HERE)), f"B={program.BUILD}", "install", f"DESTDIR={root}",
                "PREFIX=/usr/local"], check=True, stdout=subprocess.DEVNULL)
with open(disk, "wb") as f:
    f.truncate(128 << 20)
g = guest.Guest(where, f"{guest.HERE}/systemd.sh", f"portus.build={root}", disk=disk, again=True)
lines = g.until("exit ", 1100)
g.cut()
trial.expect(lines and lines[-1] == "exit 0" and "all was right" in lines and not any("WRONG" in line for line in lines), g.tail())
print(*[line for line in lines if line.startswith("right: ")], sep="\n")
