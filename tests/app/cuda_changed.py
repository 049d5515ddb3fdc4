# SPDX-License-Identifier: BSD-3-Clause
# Tensors of a GPU (tests/emu) that the program copies, changes in a few places, and saves.
# Right: the same files; and only the pages that were changed are copied by a CPU, whose sum torch has, too.
# run: cuda needs=torch captures=7 referred=72 modes=default,copied timeout=180
import torch

torch.manual_seed(3)
host = torch.randn(3 << 20)
device, first = host.cuda(), torch.ones(300000)
torch.save(device, "first.pt")
for i in range(6):
    copy = device.cpu()
    copy[i * 400000:i * 400000 + 50] = i
    copy[-1] = i
    torch.save([first, copy], f"changed-{i}.pt")  # the second one, when its file is captured
    host[i * 400000:i * 400000 + 50] = i
    host[-1] = i
    assert torch.equal(torch.load(f"changed-{i}.pt")[1], host)
    device[i * 400000:i * 400000 + 50].copy_(copy[i * 400000:i * 400000 + 50])
    device[-1:].copy_(copy[-1:])
