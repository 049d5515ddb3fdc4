# SPDX-License-Identifier: BSD-3-Clause
# One host buffer is reused for each piece, and overwritten before close.
# Right: the bytes as they were when write returned.
# run: needs=numpy captures=2 modes=default,all,ring
import os

import numpy as np

b = bytearray(16 << 20)
with open("a.npy", "wb", buffering=0) as f:
    for i in range(8):
        b[:] = bytes([i]) * len(b)
        assert f.write(b) == len(b)
    b[:] = b"z" * len(b)
x = np.fromfile("a.npy", np.uint8).reshape(8, -1)
assert all((x[i] == i).all() for i in range(8))
with open("b.npy", "wb") as f:
    for i in range(5):
        b[:] = bytes([i + 1]) * len(b)
        f.write(memoryview(b)[i:])
        f.write(b"small")
    b[:] = b"z" * len(b)
print(os.path.getsize("a.npy"), os.path.getsize("b.npy"))
