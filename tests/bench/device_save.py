# SPDX-License-Identifier: BSD-3-Clause
"""Saves tensors of an emulated GPU (tests/emu), and counts what that asks of the driver.

    device_save.py KIND GIB SAVES

In the working directory. Prints a line of JSON for each save: seconds; calls of the driver, copies to
the host, bytes of them into pageable and into pinned memory; and of the memory that shows
the shim's ring (/proc/self/smaps) what the kernel has copied when it was settled.
"""
import ctypes
import json
import sys
import time
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402

SIZES = [4, 4, 8, 16, 32, 64]  # MiB of tensors, in turn; and a little, so that none ends on a page
driver = ctypes.CDLL("libcuda.so.1")


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("calls", "copies", "pageable", "pinned")]


def counts():
    found = Counts.in_dll(driver, "emu_counts")
    return {name: getattr(found, name) for name, _ in Counts._fields_}


def settled():
    total, ours = 0, False
    with open("/proc/self/smaps") as f:
        for line in f:
            words = line.split()
            if not words[0].endswith(":"):
                ours = "portus-ring" in line and words[1][3] == "p"
            elif ours and words[0] == "Anonymous:":
                total += int(words[1]) << 10
    return total


def make_state(total):
    state, size = {}, 0
    while size < total:
        count = (SIZES[len(state) % len(SIZES)] << 18) + 100
        state[f"w{len(state)}"] = (torch.arange(count, dtype=torch.int32) * 2654435 + len(state)).cuda()
        size += 4 * count
    return state, size


def path(state, name):
    torch.save(state, name + ".pt")


def safetensors(state, name):
    from safetensors.torch import save_file
    save_file(state, name + ".safetensors")


def dcp_async(state, name):
    import torch.distributed as dist
    import torch.distributed.checkpoint as checkpoint
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    checkpoint.async_save(state, checkpoint_id=name).result()


def main():
    save = {f.__name__: f for f in (path, safetensors, dcp_async)}[sys.argv[1]]
    state, size = make_state(int(float(sys.argv[2]) * (1 << 30)))
    torch.cuda.synchronize()
    for number in range(int(sys.argv[3])):
        before, began = counts(), time.perf_counter()
        save(state, f"step-{number}")
        found = {"seconds": time.perf_counter() - began, "bytes": size, "tensors": len(state)}
        found.update({name: value - before[name] for name, value in counts().items()}, settled=settled())
        print(json.dumps(found), flush=True)
        time.sleep(0.5)
        for _ in range(10):  # as a training loop does: the shim's ring is pinned beside these
            state["w0"][:1].cpu()
            time.sleep(0.02)


main()
