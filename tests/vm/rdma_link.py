# SPDX-License-Identifier: BSD-3-Clause
# Both ends of an RDMA link in one guest, by soft-RoCE on a dummy device: memory is pulled into a pool on devdax,
# fsdax and in a file, pushed back, and compared, beside ib_read_bw, ib_write_bw and rping. Then what goes
# wrong: a wrong secret, a wrong key, memory that was withdrawn, an end that is stopped, killed, cut off, lossy.
# run: script by=check-vm timeout=900
import os
import sys

from lib import guest, program, trial

if not os.path.exists(f"{program.BUILD}/portus_rdma.so"):
    trial.skip("built without rdma-core (sh scripts/install-deps guest)")
try:
    guest.prepare()
except guest.Missing as e:
    trial.skip(f"no guest: {e}")


def run(directory, do, seconds):
    """The lines of one boot."""
    nvdimm = f"{directory}/nvdimm"
    with open(nvdimm, "wb") as f:
        f.truncate(256 << 20)
    g = guest.Guest(directory, f"{guest.HERE}/rdma.sh", f"portus.build={program.BUILD} portus.do={do}", nvdimm, size=256)
    lines = g.until("exit ", seconds)
    g.cut()
    if lines is None or lines[-1] != "exit 0":
        sys.exit(g.tail())
    print("\n".join(lines), flush=True)
    if any(line.startswith("device rxe0 active") for line in lines):
        return lines
    trial.skip("no soft-RoCE in the guest: " + " ".join(lines[:3]))
    return lines


def expect(condition, what, lines):
    if not condition:
        sys.exit(f"{what}:\n" + "\n".join(lines))


directory = trial.fresh()
lines = run(directory, "one", 400)
for kind, memory in (("devdax", "pool"), ("fsdax", "buffer"), ("file", "pool")):
    part = lines[lines.index(f"kind {kind}"):]
    part = part[:part.index("store-ended") + 1]
    for wanted in (f"store registered {memory}", "store equal 1", "agent same 1", "store end the other end has hung up"):
        expect(wanted in part, f"{kind}: not '{wanted}'", part)
expect("yardstick rping works" in lines, "rping", lines)
expect(sum(x.startswith("yardstick ib_") for x in lines) == 2, "perftest", lines)
