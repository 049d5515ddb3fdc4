# SPDX-License-Identifier: BSD-3-Clause
# Four processes of one job save at once into one directory; the first writes the pointer
# when all have said that they are done; loader workers are forked meanwhile.
# Right: all shards whole, and before the pointer is there.
# run: needs=torch captures=8 timeout=120
import multiprocessing
import os
import subprocess

import torch
from torch.utils.data import DataLoader, TensorDataset

bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


def rank(number, barrier):
    torch.manual_seed(number)
    torch.set_num_threads(1)
    w = torch.randn(2000000 + number)
    loader = DataLoader(TensorDataset(torch.arange(64.0)), batch_size=8, num_workers=number % 2)
    for step in range(3):
        total = sum(x.sum().item() for (x,) in loader)
        assert total == 2016.0
        os.makedirs(f"step{step}", exist_ok=True)
        torch.save({"step": step, "w": w + step}, f"step{step}/{number}.pt")
        barrier.wait()
        if number == 0:
            with open("latest.new", "w") as f:
                f.write(f"step{step}")
            os.replace("latest.new", "latest")
            sizes = subprocess.run(["stat", "-c", "%n %s", *(f"step{step}/{i}.pt" for i in range(4))],
                                   env=bare, capture_output=True, check=True, text=True).stdout
            print(sizes, end="", flush=True)
        barrier.wait()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    ranks = [context.Process(target=rank, args=(i, barrier)) for i in range(4)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    print([p.exitcode for p in ranks])
