# SPDX-License-Identifier: BSD-3-Clause
# torch.save by path, file object, unbuffered, through BytesIO, into a temporary file.
# Right: torch's own bytes; they load, also right after each save.
# run: needs=torch captures=6
import io
import os
import pathlib
import tempfile

import torch

torch.manual_seed(1)
base = torch.arange(1 << 20, dtype=torch.float32)
state = {
    "w": torch.randn(1 << 22),
    "odd": torch.randn(1000003),
    "view": base[1000:500000],
    "strided": base.view(1024, 1024).t(),
    "shared": [base, base[5:], base.view(512, -1)],
    "empty": torch.empty(0),
    "empty too": torch.empty(3, 0, 7, dtype=torch.int8),
    "scalar": torch.tensor(3.5),
    "half": torch.randn(777777).half(),
    "bfloat16": torch.randn(1 << 20).bfloat16(),
    "bool": torch.randn(99) > 0,
    "complex": torch.randn(50, dtype=torch.complex64),
    "bytes": torch.arange(1 << 21, dtype=torch.int64).to(torch.uint8),
    "parameter": torch.nn.Parameter(torch.randn(321, 123)),
    "step": 7, "text": "x" * 2000000, "none": None, "list": list(range(1000)),
}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def check(source):
    loaded = torch.load(source, weights_only=True)
    assert all(same(state[k], loaded[k]) for k in state)
    assert loaded["shared"][0].data_ptr() == loaded["shared"][2].data_ptr()


torch.save(state, "path.pt")
print(os.path.getsize("path.pt"))
check("path.pt")
torch.save(state, pathlib.Path("name without a suffix"))
with open("file.pt", "wb") as f:
    torch.save(state, f)
    print(f.tell())
check("file.pt")
with open("unbuffered.pt", "wb", buffering=0) as f:
    torch.save(state, f)
with open("update.pt", "w+b") as f:
    torch.save(state, f)
    f.seek(0)
    check(f)
memory = io.BytesIO()
torch.save(state, memory)
with open("memory.pt", "wb") as f:
    print(f.write(memory.getbuffer()))
check("memory.pt")
with tempfile.NamedTemporaryFile(dir=".", delete=False) as f:
    torch.save(state, f)
os.chmod(f.name, 0o644)
os.rename(f.name, "temporary.pt")
check("temporary.pt")
torch.save(torch.empty(0), "empty.pt")
torch.save({}, "nothing.pt")
torch.save(state["w"], "again.pt")
torch.save(state["odd"], "again.pt")
torch.save(base[5:9], "view.pt")  # the whole storage
print(os.path.getsize("view.pt"))
