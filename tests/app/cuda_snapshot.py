# SPDX-License-Identifier: BSD-3-Clause
# torchsnapshot of a GPU's tensors (tests/emu): take and restore, and async_take, after which the tensors change.
# Right: the same files, with the values of the moment of the call; the state comes back to the GPU.
# run: cuda needs=torch,torchsnapshot captures-all=4 timeout=180 loose=.snapshot_metadata
import os
import warnings

os.environ["TORCHSNAPSHOT_DISABLE_BATCHING"] = "1"  # its names are random
warnings.simplefilter("ignore")
import torch  # noqa: E402
from torchsnapshot import Snapshot, StateDict  # noqa: E402


def state_of(step):
    generator = torch.Generator().manual_seed(step)
    return StateDict(**{f"w{i}": torch.randn(900000 + i, generator=generator).cuda() for i in range(4)}, step=step)


def check(name, step):
    back, wanted = state_of(0), state_of(step)
    Snapshot(name).restore({"app": back})
    assert back["step"] == step
    assert all(back[f"w{i}"].is_cuda and torch.equal(back[f"w{i}"].cpu(), wanted[f"w{i}"].cpu()) for i in range(4))


for step in (1, 2, 3):
    Snapshot.take(f"take{step}", {"app": state_of(step)})
for step in (4, 5):
    state = state_of(step)
    pending = Snapshot.async_take(f"async{step}", {"app": state})
    for i in range(4):
        state[f"w{i}"].copy_(torch.full((900000 + i,), 3.0))
    pending.wait()
for step in (1, 2, 3):
    check(f"take{step}", step)
for step in (4, 5):
    check(f"async{step}", step)
print(sorted(os.listdir(".")))
