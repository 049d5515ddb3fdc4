# SPDX-License-Identifier: BSD-3-Clause
"""Saves a model's state when told to, and says how long each save took.

    save.py KIND GIB DIRECTORY

Reads commands from standard input, a line each, and answers each by a line of
JSON. The same program runs plainly and with the shim: it knows nothing of it.

    memcpy             copies the state's bytes by one thread: the physical limit
    save NAME          saves; for an asynchronous kind: how long it kept us
    burst NAME...      saves one after another
    calibrate SECONDS  makes the loop below about that long
    loop               a fixed loop of products of matrices, by one thread
    save-loop NAME     a save and, without a pause, the loop
"""
import ctypes
import importlib.metadata
import json
import os
import sys
import time
import warnings

import torch

warnings.simplefilter("ignore")
LAYERS = 11


def shapes(width, rows):
    """The 70 parameters of a GPT."""
    yield "embedding", (rows, width)
    yield "position", (1024, width)
    for i in range(LAYERS):
        yield f"{i}.norm1", (width,)
        yield f"{i}.attention", (3 * width, width)
        yield f"{i}.projection", (width, width)
        yield f"{i}.norm2", (width,)
        yield f"{i}.up", (4 * width, width)
        yield f"{i}.down", (width, 4 * width)
    yield "norm", (width,)
    yield "bias", (width,)


def make_state(total):
    """Weights and the two moments of Adam, 210 tensors: about total bytes."""
    count = total // 12
    width = 64
    while 12 * LAYERS * (width + 64) ** 2 + 4096 * (width + 64) < count:
        width += 64
    rows = max(1, count // width - 12 * LAYERS * width - 1024 - 2 * LAYERS - 2)
    state, number = {"step": 1}, 0
    for group in "model", "exp_avg", "exp_avg_sq":
        state[group] = {}
        for name, shape in shapes(width, rows):
            tensor = torch.empty(shape)
            bits = tensor.view(torch.int32).view(-1)
            torch.arange(bits.numel(), out=bits).mul_(1103515245).add_(number).bitwise_and_(0x7f7fffff)
            state[group][name] = tensor
            number += 1
    return state


def flat(state):
    return {f"{group}.{name}": tensor for group, tensors in state.items() if group != "step"
            for name, tensor in tensors.items()}


# ---- the kinds: each saves, and returns what must be waited for ----------------


def path(state, name):
    torch.save(state, name)


def replace(state, name):
    torch.save(state, name + ".tmp")
    os.replace(name + ".tmp", name)


def fsync(state, name):
    with open(name, "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())


def safetensors(state, name):
    from safetensors.torch import save_file
    save_file(flat(state), name)


def dcp(state, name):
    import torch.distributed.checkpoint as checkpoint
    checkpoint.save(state, checkpoint_id=name)


def dcp_async(state, name):
    import torch.distributed.checkpoint as checkpoint
    return checkpoint.async_save(state, checkpoint_id=name).result


def snapshot(state, name):
    from torchsnapshot import Snapshot, StateDict
    Snapshot.take(name, {"state": StateDict(**state)})


def snapshot_async(state, name):
    from torchsnapshot import Snapshot, StateDict
    return Snapshot.async_take(name, {"state": StateDict(**state)}).wait


KINDS = {f.__name__: f for f in (path, replace, fsync, safetensors, dcp, dcp_async, snapshot, snapshot_async)}
NEEDS = {"safetensors": "safetensors", "snapshot": "torchsnapshot", "snapshot_async": "torchsnapshot"}


class Memcpy:
    """One thread's memcpy of all tensors into memory that was touched before."""

    def __init__(self, state):
        tensors = [t for t in flat(state).values()]
        size = sum((t.nbytes + 4095) // 4096 * 4096 for t in tensors)
        self.target = torch.ones(size, dtype=torch.uint8)
        self.copies, at = [], self.target.data_ptr()
        for t in tensors:
            self.copies.append((at, t.data_ptr(), t.nbytes))
            at += (t.nbytes + 4095) // 4096 * 4096

    def seconds(self):
        began = time.perf_counter()
        for copy in self.copies:
            ctypes.memmove(*copy)
        return time.perf_counter() - began


class Loop:
    """Products of matrices that stay in the cache, for about a second."""

    def __init__(self):
        self.a, self.b = torch.full((256, 256), 0.5), torch.full((256, 256), 0.25)
        self.times = 1

    def seconds(self):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        began = time.perf_counter()
        for _ in range(self.times):
            torch.mm(self.a, self.b)
        took = time.perf_counter() - began
        torch.set_num_threads(threads)
        return took

    def calibrate(self, seconds):
        self.times = 2000
        self.times = max(1, int(self.times * seconds / min(self.seconds() for _ in range(3))))


def timed(save, state, name, before=None):
    """Seconds that a save keeps us, and what is to be waited for."""
    began = time.perf_counter()
    if before is not None:
        before()
    after = save(state, name)
    return time.perf_counter() - began, after


def queued():
    """Seconds that this thread has waited for a processor so far."""
    try:
        with open("/proc/thread-self/schedstat") as f:
            return int(f.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def answer(words, save, state, memcpy, loop):
    if words[0] == "memcpy":
        return {"seconds": min(memcpy.seconds() for _ in range(2))}
    if words[0] == "save":
        before = queued()
        seconds, after = timed(save, state, words[1])
        waited = queued() - before
        if after is not None:
            after()
        return {"seconds": seconds, "queued": waited}
    if words[0] == "burst":
        took, after = [], None
        for name in words[1:]:
            seconds, after = timed(save, state, name, after)
            took.append(seconds)
        if after is not None:
            after()
        return {"seconds": took}
    if words[0] == "calibrate":
        loop.calibrate(float(words[1]))
        return {"times": loop.times}
    if words[0] == "loop":
        return {"seconds": loop.seconds()}
    if words[0] == "save-loop":
        seconds, after = timed(save, state, words[1])
        return {"seconds": seconds, "loop": loop.seconds()}
    raise ValueError(words[0])


def main():
    kind, gib, directory = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    os.chdir(directory)
    for module in filter(None, [NEEDS.get(kind)]):
        try:
            __import__(module)
        except Exception as e:
            print(json.dumps({"skip": f"{module}: {type(e).__name__}: {e}"[:200]}), flush=True)
            return
    state = make_state(int(gib * (1 << 30)))
    memcpy, loop = Memcpy(state), Loop()
    size = sum(t.nbytes for t in flat(state).values())
    versions = {"torch": torch.__version__}
    if kind in NEEDS:
        versions[NEEDS[kind]] = importlib.metadata.version(NEEDS[kind])
    print(json.dumps({"bytes": size, "tensors": len(flat(state)), "versions": versions}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.split(), KINDS[kind], state, memcpy, loop)), flush=True)


if __name__ == "__main__":
    main()
