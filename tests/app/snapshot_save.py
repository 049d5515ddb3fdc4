# SPDX-License-Identifier: BSD-3-Clause
# torchsnapshot: take and restore, and async_take.
# Right: the same files; the state comes back.
# run: needs=torch,torchsnapshot captures-all=4 timeout=120 loose=.snapshot_metadata
import os
import warnings

os.environ["TORCHSNAPSHOT_DISABLE_BATCHING"] = "1"  # its names are random
warnings.simplefilter("ignore")
import torch  # noqa: E402
from torchsnapshot import Snapshot, StateDict  # noqa: E402

torch.manual_seed(1)
state = StateDict(**{f"w{i}": torch.randn(900000 + i) for i in range(4)}, step=5)
Snapshot.take("take", {"app": state})
pending = Snapshot.async_take("async", {"app": state})
pending.wait()
for name in ("take", "async"):
    back = StateDict(**{f"w{i}": torch.zeros(900000 + i) for i in range(4)}, step=0)
    Snapshot(name).restore({"app": back})
    assert back["step"] == 5 and all(torch.equal(back[f"w{i}"], state[f"w{i}"]) for i in range(4))
print("restored")
