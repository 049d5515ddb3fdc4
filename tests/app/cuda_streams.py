# SPDX-License-Identifier: BSD-3-Clause
# Tensors saved from streams that are behind (tests/emu, slow): copies that come after works of their own
# stream, of another by an event, of a graph's replay; what is overwritten right after. With each of
# PyTorch's allocators.
# Right: the value at the copy's place in its stream, in all files.
# run: cuda needs=torch captures=12 timeout=300
import os
import subprocess
import sys

ALLOCATORS = ("", "expandable_segments:True", "backend:cudaMallocAsync")

if len(sys.argv) < 2:
    for number, allocator in enumerate(ALLOCATORS):
        env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": allocator, "PYTORCH_ALLOC_CONF": allocator,
               "EMU_LATENCY": "3000", "EMU_BANDWIDTH": "4G"}
        subprocess.run([sys.executable, __file__, str(number)], env=env, check=True)
    sys.exit()

import torch  # noqa: E402

name = sys.argv[1]
N = 1 << 20


def full(value):
    return torch.full((N,), float(value)).pin_memory()


def behind(stream, x, value):
    """Several works, the last of which makes x the value."""
    with torch.cuda.stream(stream):
        for v in (value + 0.25, value + 0.5, value):
            x.copy_(full(v), non_blocking=True)


def check(path, value):
    loaded = torch.load(path, map_location="cpu")
    for x in loaded if isinstance(loaded, list) else [loaded]:
        assert torch.equal(x, torch.full((N,), float(value))), (path, x[0].item())


torch.save(torch.ones(N).cuda(), f"first-{name}.pt")
x, y = torch.zeros(N).cuda(), torch.zeros(N).cuda()
a, b = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
torch.cuda.synchronize()

# On the copy's own stream.
behind(a, x, 1)
with torch.cuda.stream(a):
    torch.save([x], f"own-{name}.pt")
    x.copy_(full(9), non_blocking=True)
check(f"own-{name}.pt", 1)

# On another, behind an event; the event's stream goes on.
behind(b, y, 2)
event = b.record_event()
a.wait_event(event)
with torch.cuda.stream(a):
    host = y.cpu()
behind(b, y, 7)
torch.save(host, f"event-{name}.pt")
check(f"event-{name}.pt", 2)

# The default stream, behind the whole device.
behind(a, x, 3)
torch.cuda.synchronize()
torch.save([x, x], f"default-{name}.pt")
check(f"default-{name}.pt", 3)

# Pinned memory: the copy is late, and is awaited.
pinned = torch.empty(N, pin_memory=True)
behind(a, x, 4)
with torch.cuda.stream(a):
    pinned.copy_(x, non_blocking=True)
a.synchronize()
torch.save(pinned, f"pinned-{name}.pt")
check(f"pinned-{name}.pt", 4)

# A graph that copies, replayed with other sources.
source, graph = full(5), torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph, stream=a):
    x.copy_(source, non_blocking=True)
for value in (5, 6):
    source.fill_(value)
    graph.replay()
    torch.save(x, f"graph{value}-{name}.pt")  # on the stream of the replay
    check(f"graph{value}-{name}.pt", value)

# Freed, and its memory given to another at once.
z = torch.full((N,), 8.0).cuda()
host = z.cpu()
del z
z = torch.full((N,), 9.0).cuda()
torch.save(host, f"freed-{name}.pt")
check(f"freed-{name}.pt", 8)
print(name, torch.cuda.get_allocator_backend(), z.device)
