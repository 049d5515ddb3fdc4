# SPDX-License-Identifier: BSD-3-Clause
# One os.write of 2.5 GiB, and a writev whose sum is above 2 GiB.
# Right: both return what the kernel takes at most, 0x7ffff000; a loop writes the rest.
# run: needs=numpy slow modes=default captures=1 mem=12 disk=10 timeout=180
import os

import numpy as np

b = np.arange(5 << 27, dtype=np.uint32)
fd = os.open("a.npy", os.O_CREAT | os.O_WRONLY)
n = os.write(fd, b)
print(n)
while n < b.nbytes:
    n += os.write(fd, b.view(np.uint8)[n:])
print(n)
os.close(fd)
fd = os.open("a.npy", os.O_WRONLY | os.O_TRUNC)
half = b.view(np.uint8)[:(5 << 28) + 4096]
print(os.writev(fd, [half, half[1:]]))
os.close(fd)
print(os.path.getsize("a.npy"))
