# SPDX-License-Identifier: BSD-3-Clause
# safetensors: save_file, load, saving what is mapped from the file that is replaced, odd modes.
# Right: the same files and modes; an older mapping keeps the older bytes.
# run: needs=torch,safetensors captures=1
import os

import numpy
import torch
from safetensors import safe_open
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file, save, save_file

torch.manual_seed(1)
w = torch.randn(1 << 22)
save_file({"w": w, "b": torch.arange(77), "empty": torch.empty(0, 5)}, "a.safetensors", metadata={"k": "v"})
with safe_open("a.safetensors", "pt") as f:
    assert f.metadata() == {"k": "v"} and torch.equal(f.get_tensor("w"), w)

save_file({"w": w}, "m.safetensors")
old = load_file("m.safetensors")  # mapped
save_file({"w": old["w"] + 0}, "m.safetensors")
save_file(old, "m.safetensors")
assert torch.equal(load_file("m.safetensors")["w"], w) and torch.equal(old["w"], w)

kept = load_file("a.safetensors")
os.unlink("a.safetensors")
for i in range(4):
    torch.save(w + i, f"f{i}.pt")
assert torch.equal(kept["w"], w)
save_file(kept, "back.safetensors")

os.umask(0o027)
save_file({"w": w}, "masked.safetensors")
torch.save(w, "b.pt")
os.chmod("b.pt", 0o604)
torch.save(w, "b.pt")
print([oct(os.stat(p).st_mode) for p in ("masked.safetensors", "b.pt")])
save_numpy({"n": numpy.arange(3000000, dtype=numpy.int32)}, "n.safetensors")
with open("bytes.safetensors", "wb") as f:
    f.write(save({"w": w}))
for i in range(10):
    save_file({"w": w + i}, "same.safetensors")
    assert load_file("same.safetensors")["w"][3] == w[3] + i
