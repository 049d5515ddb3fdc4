# SPDX-License-Identifier: BSD-3-Clause
# torch.distributed.checkpoint of a GPU's tensors (tests/emu): save, async_save as it is, with pinned
# staging memory that is kept, and by a process; the state changes while it is written.
# Right: torch's own files, and equal tensors back.
# run: cuda needs=torch captures=3 referred=13 timeout=240 loose=.metadata
import os
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions  # noqa: E402


def state_of(step):
    generator = torch.Generator().manual_seed(step)
    return {"model": {f"w{i}": torch.randn(400000 + i, generator=generator).cuda() for i in range(6)},
            "step": step}


def check(directory, step):
    wanted = state_of(step)
    loaded = {"model": {k: torch.zeros_like(v.cpu()) for k, v in wanted["model"].items()}, "step": 0}
    dcp.load(loaded, checkpoint_id=directory)
    assert loaded["step"] == step
    assert all(torch.equal(v.cpu(), loaded["model"][k]) for k, v in wanted["model"].items())


def overwrite(state):
    for v in state["model"].values():
        v.copy_(torch.full(v.shape, 3.0))


def main():
    for step in (1, 2):
        dcp.save(state_of(step), checkpoint_id="plain")
    check("plain", 2)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    for step in (3, 4):
        state = state_of(step)
        job = dcp.async_save(state, checkpoint_id=f"async{step}")
        overwrite(state)  # it has been staged
        job.result()
        check(f"async{step}", step)
    for name, pinned in (("pinned", True), ("pageable", False)):
        options = StagingOptions(use_pinned_memory=pinned, use_shared_memory=False,
                                 use_async_staging=False, use_non_blocking_copy=pinned)
        stager = DefaultStager(options)
        for step in (5, 6):
            state = state_of(step)
            job = dcp.async_save(state, checkpoint_id=f"{name}{step}", async_stager=stager)
            job = getattr(job, "upload_completion", job)
            overwrite(state)
            job.result()
            check(f"{name}{step}", step)
        stager.close()
    dist.destroy_process_group()
    print(sorted(os.listdir(".")))


main()
