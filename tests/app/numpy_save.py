# SPDX-License-Identifier: BSD-3-Clause
# NumPy: save, savez, savez_compressed, tofile, memmap, and zip members patched afterwards.
# Right: the same bytes: savez rewrites the head of the file and of each member at the end.
# run: needs=numpy captures=8
import os
import zipfile

import numpy as np

random = np.random.default_rng(1)
a, b = random.standard_normal((2 << 20) + 3), np.arange(2 << 20, dtype=np.int32)  # 16 MiB: NumPy reserves room
np.save("a.npy", a)
assert np.array_equal(np.load("a.npy"), a)
np.savez("z.npz", a=a, b=b, small=np.arange(3), empty=np.empty((0, 4)))
with zipfile.ZipFile("z.npz") as z:
    assert z.testzip() is None
np.savez_compressed("c.npz", a=a[:300000], b=b)
loaded = np.load("c.npz")
assert np.array_equal(loaded["b"], b) and np.array_equal(loaded["a"], a[:300000])
with open("several.npy", "wb") as f:
    for x in (a, b, a[::2], np.array("text"), np.asfortranarray(b.reshape(2, -1))):
        np.save(f, x)
with open("raw.bin", "wb") as f:
    f.write(b"head")
    a.tofile(f)
    f.write(b"between")
    b.tofile(f)
    print(f.tell())
b.tofile("b.npy")
m = np.lib.format.open_memmap("map.npy", mode="w+", dtype=np.float32, shape=(1 << 20,))
m[:] = 3
m.flush()
del m
m = np.load("a.npy", mmap_mode="r+")
m[5:9] = 0
del m
np.save("a2.npy", np.load("a.npy", mmap_mode="r"))
with zipfile.ZipFile("m.npz", "w") as z:
    with z.open(zipfile.ZipInfo("member"), "w", force_zip64=True) as f:
        for _ in range(5):
            f.write(b)
    z.writestr(zipfile.ZipInfo("small"), "x" * 10)
with zipfile.ZipFile("m.npz", "a") as z:
    z.writestr(zipfile.ZipInfo("more"), a.tobytes())
with zipfile.ZipFile("m.npz") as z:
    assert z.testzip() is None
for name in sorted(os.listdir()):
    print(name, os.path.getsize(name))
