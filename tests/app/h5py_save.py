# SPDX-License-Identifier: BSD-3-Clause
# HDF5: it seeks back to its superblock, locks the file, updates in place, is read while open.
# Right: the same bytes; locks hold off other processes as long as, and only as long as, it is open.
# run: needs=numpy,h5py timeout=120
import fcntl
import os
import subprocess
import sys

import h5py
import numpy as np

w = np.arange(1 << 21, dtype=np.float32)


def other(code):
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode


h5py.get_config().track_order = False
with h5py.File("a.h5", "w", libver="latest") as f:
    f["w"] = w
    f.create_dataset("chunks", data=w, chunks=(1 << 18,), compression="gzip", compression_opts=1)
    f["empty"] = np.empty(0)
    f.attrs["step"] = 5
with h5py.File("b.h5", "w") as f:
    f["w"], f["v"] = w, w
    f.flush()
    f["w"][:1000] = -1
with h5py.File("b.h5", "r+") as f:
    f["w"][5000:9000] = -2
    f["more"] = w[:100000]
with h5py.File("b.h5", "r") as f:
    assert f["w"][5] == -1 and f["w"][5001] == -2 and np.array_equal(f["v"][:], w)

f = h5py.File("c.h5", "w")
f["w"] = w
f.flush()
during = other("import h5py; h5py.File('c.h5', 'a')")
f.close()
print(during, other("import h5py; h5py.File('c.h5', 'a').close()"))

with open("d.bin", "wb") as g:
    fcntl.lockf(g, fcntl.LOCK_EX)
    g.write(w)
    g.flush()
    locked = other("import fcntl; fcntl.lockf(open('d.bin', 'r+b'), fcntl.LOCK_EX + fcntl.LOCK_NB)")
print(locked, other("import fcntl; fcntl.lockf(open('d.bin', 'r+b'), fcntl.LOCK_EX + fcntl.LOCK_NB)"))

if (pid := os.fork()) == 0:  # killed in the middle of an update: what was flushed is there
    f = h5py.File("b.h5", "r+")
    f["v"][:1 << 20] = -3
    f.flush()
    os.kill(os.getpid(), 9)
print(os.waitpid(pid, 0)[1])
with h5py.File("b.h5", "r") as f:
    print(f["v"][0], f["v"][-1] == w[-1], f["w"][5], os.path.getsize("b.h5"))
