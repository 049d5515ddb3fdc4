# SPDX-License-Identifier: BSD-3-Clause
# The power goes in a guest that saves on ext4 with PORTUS_ORDER=relaxed into a pool on its NVDIMM: in the middle of the drain, and
# after it, before what it wrote has come to the disk. One file is written from an empty one, one has its size first, one its blocks.
# Right: each of which fsync had returned is whole when it is opened with PORTUS_RESTORE=auto, or was completed, or restored.
# run: script by=check-vm timeout=1200
import os
import random
import subprocess
import sys
import time

from lib import guest, program, trial

BOOT, CUTS, SIZE = 180, 6, 4 << 20
SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t pwritev64v2(int fd, const struct iovec *vector, int count, long offset, int flags)
{
    usleep(300000);
    return ((ssize_t(*)(int, const struct iovec *, int, long, int))dlsym(RTLD_NEXT, "pwritev64v2"))(fd, vector, count, offset, flags);
}
ssize_t pwritev2(int fd, const struct iovec *vector, int count, long offset, int flags)
{
    return pwritev64v2(fd, vector, count, offset, flags);
}
"""

guest.needed()
where = trial.fresh()
nvdimm, disk, slow = (os.path.join(where, name) for name in ("nvdimm", "disk", "slow.so"))
subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", slow, "-ldl"], input=SLOW, text=True, check=True)
for name in (nvdimm, disk):
    with open(name, "wb") as f:
        f.truncate(128 << 20)
subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True, env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
stood = {"drains": 0, "drained": 0}
for step in range(CUTS + 1):
    do = "look" if step == CUTS else ("drains", "drained")[step % 2]
    os.mkdir(f"{where}/{step}")
    for way in ("plain", "sized", "blocks"):
        with open(f"{where}/{step}/{way}.pt", "wb") as f:
            f.write(random.randbytes(SIZE))
    g = guest.Guest(where, f"{guest.HERE}/sized.sh", f"portus.build={program.BUILD} portus.kind=fsdax portus.do={do} portus.step={step} "
                    f"portus.where={where} portus.python={sys.executable}", nvdimm, disk=disk, again=True)
    lines = g.until("exit " if do == "look" else "cut", BOOT)
    if do != "look":
        time.sleep(random.random() / 4)
    g.cut()
    trial.expect(lines and not any(line.startswith(("WRONG", "exit 1")) for line in lines), f"step {step}: {g.tail()}")
    print(*[line for line in lines if line.startswith(("stood", "right", "portus"))], sep="\n", flush=True)
    if step > 0:
        trial.expect(sum(line.startswith("right") for line in lines) == 3, f"step {step}: {g.tail()}")
        stood[("drains", "drained")[(step - 1) % 2]] += sum(line.startswith("stood") for line in lines)
trial.expect(any(stood.values()), f"all came to the disk by itself: {stood}")
