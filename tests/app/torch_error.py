# SPDX-License-Identifier: BSD-3-Clause
# torch.save to a file object whose write fails in the middle of a tensor; then the tensor changes and is saved.
# Right: the same exception, and the later file holds the later values, each with its CRC.
# run: needs=torch captures=1
import zipfile

import torch


class Failing:
    """Writes on until the second tensor comes."""

    def __init__(self, name):
        self.file = open(name, "wb", buffering=0)

    def write(self, data):
        if len(data) < 200 and b"/data/1" in bytes(data):
            raise OSError(5, "of the program's own")
        return self.file.write(data)

    def flush(self):
        pass


a, b, c = (torch.full((1 << 20,), float(i)) for i in range(3))
for way in range(3):
    try:
        torch.save({"a": a, "b": b, "c": c}, Failing(f"failed{way}.pt"))
    except (OSError, RuntimeError) as e:
        print(type(e).__name__)
    for t in (a, b, c):
        t.add_(10)
    if way == 0:
        torch.save({"a": a, "b": b, "c": c}, "later0.pt")
    elif way == 1:
        with open("later1.pt", "wb") as f:
            torch.save({"c": c, "b": b, "a": a}, f)
    else:
        with open("later2.npy", "wb") as f:
            f.write(b"\x93NUMPY" + bytes(1 << 20))
            for t in (a, b, c):
                f.write(memoryview(t.numpy()))
        continue
    saved = torch.load(f"later{way}.pt")
    print(zipfile.ZipFile(f"later{way}.pt").testzip(),
          [torch.equal(saved[name], t) for name, t in (("a", a), ("b", b), ("c", c))])
