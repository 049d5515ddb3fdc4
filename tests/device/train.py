# SPDX-License-Identifier: BSD-3-Clause
"""A PyTorch training loop that saves from the GPU: for scripts/device-check, plainly and with the shim.

    train.py STEPS MEBIBYTES

Steps are replays of a CUDA graph; each is saved by torch.save, in turn by path, by file object, as a
copy made before. Which allocator there is says PYTORCH_CUDA_ALLOC_CONF. All is elementwise and
in one stream, so that two runs compute the same. Prints the sha256 of what each file loads as.
"""
import hashlib
import sys
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402

steps, size = int(sys.argv[1]), int(sys.argv[2]) << 18
torch.manual_seed(1)
device = torch.device("cuda")
weights = [torch.randn(size - 1000 * i).to(device) for i in range(3)]
moments = [torch.zeros(w.shape).to(device) for w in weights]
rate = torch.full((1,), 0.01).to(device)


def step():
    for w, m in zip(weights, moments):
        m.mul_(0.9).add_(w - 1.0)
        w.sub_(m * rate)


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()


def state():
    return {"weights": weights, "moments": moments, "rate": rate}


def by_path(name):
    torch.save(state(), name)


def by_file(name):
    with open(name, "wb") as f:
        torch.save(state(), f)


def by_copy(name):
    copy = {"weights": [w.cpu() for w in weights], "moments": [m.cpu() for m in moments], "rate": rate.cpu()}
    for _ in range(2):
        graph.replay()  # the device goes on
    torch.save(copy, name)


for number in range(steps):
    graph.replay()
    (by_path, by_file, by_copy)[number % 3](f"step-{number:03}.pt")
torch.cuda.synchronize()
for number in range(steps):
    digest = hashlib.sha256()
    loaded = torch.load(f"step-{number:03}.pt", map_location="cpu")
    for tensor in [*loaded["weights"], *loaded["moments"], loaded["rate"]]:
        digest.update(tensor.numpy().tobytes())
    print(number, digest.hexdigest())
