# SPDX-License-Identifier: BSD-3-Clause
# Four threads save at the same time, each its own files, while the main thread computes.
# Right: all files whole; each loads in the thread that wrote it.
# run: needs=torch captures=12
import concurrent.futures
import os

import torch

torch.manual_seed(1)
states = [torch.randn(1500000 + i) for i in range(4)]


def work(i):
    os.mkdir(f"rank{i}")
    for step in range(5):
        torch.save({"step": step, "w": states[i] + step}, f"rank{i}/{step}.pt")
        torch.save({"step": step, "w": states[i] - step}, f"rank{i}/new.pt")
        os.replace(f"rank{i}/new.pt", f"rank{i}/last.pt")
        assert torch.load(f"rank{i}/last.pt", weights_only=True)["step"] == step
        if step >= 2:
            os.unlink(f"rank{i}/{step - 2}.pt")
    return sorted(os.listdir(f"rank{i}"))


with concurrent.futures.ThreadPoolExecutor(4) as pool:
    jobs = [pool.submit(work, i) for i in range(4)]
    x = torch.randn(300, 300)
    while not all(j.done() for j in jobs):
        x = torch.tanh(x @ x)
    print([j.result() for j in jobs])
