# SPDX-License-Identifier: BSD-3-Clause
# In a guest, whose kernel has cgroups of version 2 with memory in them, and NFS: shim/memory (a limit of the plain run's peak and a
# tenth), app/agent_oom, app/silent_mount with an NFS server that does not answer.
# Right: each passes there.
# run: script by=check-vm timeout=3600
import os

from lib import guest, program, trial

NAMES = ["shim/memory", "app/agent_oom", "nfs:app/silent_mount"]
guest.needed()
names = os.environ.get("NAMES", ",".join(NAMES)).split(",")
where = trial.fresh()
with open(f"{where}/disk", "wb") as f:
    f.truncate(1 << 30)
g = guest.Guest(where, f"{guest.HERE}/node.sh", f"portus.build={program.BUILD} portus.top={os.path.dirname(guest.HERE)} "
                f"portus.names={','.join(names)}", disk=f"{where}/disk", again=True)
lines = g.until("exit ", 3400)
g.cut()
trial.expect(lines and lines[-1] == "exit 0", g.tail())
missing = [line for line in lines if line.startswith("missing nfs")]
print("\n".join(lines), flush=True)
for name in names:
    if name.startswith("nfs:") and missing:
        print(f"{name}: {missing[0]} (sh scripts/install-deps guest)")
        continue
    trial.expect(f"ended {name} 0" in lines, f"{name} does not pass in the guest")
os.unlink(f"{where}/disk")
