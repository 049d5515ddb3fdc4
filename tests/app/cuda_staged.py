# SPDX-License-Identifier: BSD-3-Clause
# A GPU's tensors (tests/emu) that are all copied to the host before the first is written, as staging does.
# Right: the same files; and there is room in the ring for all of them from the third save on.
# run: cuda needs=torch captures=20 referred=55 modes=default timeout=180
import os
import time

import torch

torch.manual_seed(4)
host = [torch.randn(2 << 20) for _ in range(8)]
state = [tensor.cuda() for tensor in host]
for i in range(6):
    state[0][:10].copy_(torch.full((10,), float(i)))
    host[0][:10] = i
    staged = [tensor.cpu() for tensor in state]
    for number, tensor in enumerate(staged):  # each is on the disk before the next is written
        with open(f"part-{number}.pt", "wb") as f:
            torch.save(tensor, f)
            os.fsync(f.fileno())
    time.sleep(0.5)
    for _ in range(10):  # as a training loop does; the ring grows meanwhile
        assert state[0][:1].cpu().item() == i
        time.sleep(0.02)
    assert all(torch.equal(torch.load(f"part-{number}.pt"), host[number]) for number in range(8))
