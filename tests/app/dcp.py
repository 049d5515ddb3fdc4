# SPDX-License-Identifier: BSD-3-Clause
# torch.distributed.checkpoint: save, async_save, load, in one process.
# Right: torch's own files (DCP syncs and renames them), and equal tensors back.
# run: needs=torch captures=2 timeout=120 loose=.metadata
import os
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

torch.manual_seed(1)
state = {"model": {f"w{i}": torch.randn(400000 + i) for i in range(6)}, "step": 5, "empty": torch.empty(0)}


def zeros():
    return {"model": {k: torch.zeros_like(v) for k, v in state["model"].items()}, "step": 0,
            "empty": torch.empty(0)}


def check(directory):
    loaded = zeros()
    dcp.load(loaded, checkpoint_id=directory)
    assert loaded["step"] == 5
    assert all(torch.equal(v, loaded["model"][k]) for k, v in state["model"].items())


dcp.save(state, checkpoint_id="plain")
check("plain")
print(sorted(os.listdir("plain")))
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
copy = {"model": {k: v.clone() for k, v in state["model"].items()}, "step": 5, "empty": torch.empty(0)}
job = dcp.async_save(copy, checkpoint_id="async")
job.result()
for v in copy["model"].values():
    v.zero_()
check("async")
dcp.save(state, checkpoint_id="group", storage_writer=dcp.FileSystemWriter("group", single_file_per_rank=False, thread_count=2))
check("group")
for round_ in range(3):
    dcp.save(state, checkpoint_id="again")
check("again")
dist.destroy_process_group()
