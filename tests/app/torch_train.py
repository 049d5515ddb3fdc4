# SPDX-License-Identifier: BSD-3-Clause
# A training loop: real steps, model and Adam state saved, killed state resumed from the file.
# Right: the resumed run ends with the same weights; all files are as without the shim.
# run: needs=torch captures=5
import os

import torch

torch.manual_seed(3)
torch.set_num_threads(1)


def new():
    model = torch.nn.Sequential(torch.nn.Linear(256, 1536), torch.nn.GELU(), torch.nn.Linear(1536, 256))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(model, optimizer, number):
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(16, 256, generator=generator)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def save(model, optimizer, number):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": number,
                "rng": torch.get_rng_state()}, "new.ckpt")
    os.replace("new.ckpt", "last.ckpt")
    with open("log.txt", "a") as f:
        f.write(f"saved {number}\n")


model, optimizer = new()
for number in range(12):
    loss = step(model, optimizer, number)
    if number % 2 == 0:
        save(model, optimizer, number)  # the weights change right after it
final = {k: v.clone() for k, v in model.state_dict().items()}

model, optimizer = new()
loaded = torch.load("last.ckpt", weights_only=True)
model.load_state_dict(loaded["model"])
optimizer.load_state_dict(loaded["optimizer"])
for number in range(loaded["step"] + 1, 12):
    step(model, optimizer, number)
assert all(torch.equal(final[k], v) for k, v in model.state_dict().items())
torch.save(final, "final.pt")
print(f"loss {loss:.6f}")
