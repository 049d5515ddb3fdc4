# SPDX-License-Identifier: BSD-3-Clause
# Tensors of a GPU (tests/emu): torch.save by path, by file object, in the old format, through memory;
# safetensors; views, small and odd ones, what is changed or freed between copy and write.
# Right: the same files (the old format names storages by their address), and equal tensors back.
# run: cuda needs=torch,safetensors captures=8 timeout=180 loose=legacy.pt
import io

import torch
from safetensors.torch import load_file, save_file

torch.manual_seed(2)
host = {f"w{i}": torch.randn(300000 + 4099 * i) for i in range(6)}
host["large"] = torch.randn(6 << 20)
host["odd"] = torch.randint(0, 255, (1234567,), dtype=torch.uint8)
host["small"] = torch.randn(10)
host["half"] = torch.randn(1 << 20).to(torch.bfloat16)
state = {k: v.cuda() for k, v in host.items()}
state["again"] = state["w1"]
view = {"view": state["large"][4096:5 << 20], "step": 7}


def check(path, **how):
    loaded = torch.load(path, **how)
    assert all(torch.equal(host[k], loaded[k].cpu()) for k in host)


for round_ in range(2):
    torch.save(state, "path.pt")
check("path.pt", map_location="cpu")
check("path.pt")  # to the GPU, where it came from
with open("file.pt", "wb") as f:
    torch.save(state, f)
check("file.pt", map_location="cpu")
torch.save(state, "legacy.pt", _use_new_zipfile_serialization=False)
check("legacy.pt", map_location="cpu")
memory = io.BytesIO()
torch.save(state, memory)
with open("memory.pt", "wb") as f:
    f.write(memory.getbuffer())
check("memory.pt", map_location="cpu")
torch.save(view, "view.pt")
assert torch.equal(torch.load("view.pt")["view"].cpu(), host["large"][4096:5 << 20])

# Copied by hand: written as it is, changed before, freed and its memory used anew.
copy = {k: v.cpu() for k, v in state.items()}
copy["large"][1000:2000] = 1
copy["w0"].add_(1)
host["large"][1000:2000] = 1
host["w0"].add_(1)
torch.save(copy, "changed.pt")
check("changed.pt")
del copy
torch.save({"zeros": torch.zeros(6 << 20), "ones": torch.ones(300000)}, "after.pt")
again = {k: v.clone().cpu() for k, v in host.items()}
assert all(torch.equal(again[k], host[k]) for k in host)

# The GPU's memory is overwritten between copy and write.
large = state["large"].cpu()
state["large"].copy_(torch.full((6 << 20,), 5.0))
torch.save(large, "before.pt")
assert not torch.equal(torch.load("before.pt"), state["large"].cpu())

del state["again"]
save_file(state, "model.safetensors")
loaded = load_file("model.safetensors", device="cuda")
assert all(torch.equal(loaded[k].cpu(), state[k].cpu()) for k in state)
print(torch.cuda.is_available(), sorted(state))
