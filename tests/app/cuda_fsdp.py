# SPDX-License-Identifier: BSD-3-Clause
# FSDP2 (fully_shard) on a GPU (tests/emu), a process group of one: its sharded state dict by DCP's save and
# async_save, with the optimizer's, and the full one by torch.save. (DCP's save copies into pinned memory:
# these bytes are captured as host memory.)
# Right: the same files, and equal tensors back.
# run: cuda needs=torch captures=5 referred=30 modes=default,copied timeout=240 loose=.metadata
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402


class Scale(torch.nn.Module):
    """Elementwise: the emulated GPU has no cuBLAS, and its kernels do nothing."""

    def __init__(self, size, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = torch.nn.Parameter(torch.randn(size, generator=generator))

    def forward(self, x):
        return x * self.weight


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cuda", (1,))
    model = torch.nn.Sequential(*(Scale(600000 + 1024 * i, i) for i in range(6))).cuda()
    wanted = {name: p.detach().cpu().clone() for name, p in model.named_parameters()}
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters())
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for step in range(3):
        parts, moments = get_state_dict(model, optimizer)
        dcp.save({"model": parts, "optimizer": moments}, checkpoint_id=f"step{step}")
        dcp.async_save({"model": parts, "optimizer": moments}, checkpoint_id=f"async{step}").result()
    whole, _ = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    torch.save(whole, "full.pt")
    torch.save({name: p.to_local() for name, p in model.state_dict().items()}, "local.pt")
    for name in ("full.pt", "local.pt"):
        loaded = torch.load(name, map_location="cpu")
        assert all(torch.equal(loaded[k], v) for k, v in wanted.items()), name
    for directory in ("step2", "async2"):
        loaded = {"model": {k: torch.zeros_like(v) for k, v in wanted.items()}}
        dcp.load(loaded, checkpoint_id=directory)
        assert all(torch.equal(loaded["model"][k], v) for k, v in wanted.items()), directory
    print(type(next(iter(parts.values()))).__name__, len(whole))
    dist.destroy_process_group()


main()
