# SPDX-License-Identifier: BSD-3-Clause
# pickle protocol 5 (frames, out-of-band buffers), joblib, gzip, shelve-like appends.
# Right: the same bytes; they load.
# run: needs=numpy,joblib captures=3
import gzip
import io
import os
import pickle

import joblib
import numpy as np

a = np.random.default_rng(1).standard_normal(700001)
value = {"a": a, "b": a[::3].copy(), "text": "t" * 3000000, "list": list(range(50000)), "empty": np.empty(0)}
with open("a.pkl", "wb") as f:
    pickle.dump(value, f, protocol=5)
    print(f.tell())
with open("a.pkl", "rb") as f:
    assert np.array_equal(pickle.load(f)["a"], a)
with open("band.pkl", "wb") as f:
    buffers = []
    f.write(pickle.dumps(value, protocol=5, buffer_callback=buffers.append))
    for b in buffers:
        f.write(b.raw())
with open("unbuffered.pkl", "wb", buffering=0) as f:
    pickle.Pickler(f, 5).dump(value)
with open("pure.pkl", "wb") as f:
    pickle._Pickler(f, 4).dump(value)
joblib.dump(value, "a.joblib")
assert np.array_equal(joblib.load("a.joblib")["b"], a[::3])
mapped = joblib.load("a.joblib", mmap_mode="r")
joblib.dump(dict(mapped), "b.joblib")
joblib.dump(value, "c.joblib", compress=("zlib", 1))
with open("mtime0.gz", "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as f:
    f.write(a.tobytes())
text = io.TextIOWrapper(open("text.pkl", "wb"))
text.write("x" * 5000000 + "\n")
text.close()
for i in range(20):
    with open("new.pkl", "wb") as f:
        pickle.dump((i, a), f, protocol=5)
        f.flush()
        os.fsync(f.fileno())
    os.replace("new.pkl", "last.pkl")
    with open("last.pkl", "rb") as f:
        assert pickle.load(f)[0] == i
