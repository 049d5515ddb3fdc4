# SPDX-License-Identifier: BSD-3-Clause
# In a guest with emulated persistent memory: a page of a version becomes bad, by MADV_HWPOISON while portusd has it
# mapped, and by a machine check, of which the kernel makes a bad block; the file system of the pool is full; the unit test
# of pools in files runs on it. Right: portusd lives and says it once; badblocks, scrub, verify and restore name the
# version; the others are as they were. An emulated devdax device shows the bad block and can be read all the same.
# run: script by=check-vm timeout=900
import os

from lib import guest, program, trial

guest.needed()
for kind in ("fsdax", "devdax"):
    where = trial.fresh()
    with open(f"{where}/nvdimm", "wb") as f:
        f.truncate(128 << 20)
    g = guest.Guest(where, f"{guest.HERE}/poison.sh", f"portus.build={program.BUILD} portus.kind={kind}", f"{where}/nvdimm", again=True)
    lines = g.until("exit ", 400)
    g.cut()
    trial.expect(lines and lines[-1] == "exit 0" and not any("WRONG" in line for line in lines), f"{kind}: " + "\n".join(g.said[-60:]))
    print(kind, *[line for line in lines if "portusd: " in line or "tests" in line or "said to be" in line], sep="\n  ", flush=True)
    os.unlink(f"{where}/nvdimm")
