# SPDX-License-Identifier: BSD-3-Clause
# The ways of keeping checkpoints: os.replace onto one name 50 times with a load each time,
# the last two kept, a directory renamed when it is full, a link to the newest, latest above.
# Right: what loads is what was saved last, and nothing else is left.
# run: needs=torch captures=60
import os
import shutil

import torch

torch.manual_seed(1)
w = torch.randn(500000)


def save(step, name):
    torch.save({"step": step, "w": w + step}, name)


def load(name):
    loaded = torch.load(name, weights_only=True)
    assert torch.equal(loaded["w"], w + loaded["step"])
    return loaded["step"]


for step in range(50):
    save(step, "last.pt.tmp")
    os.replace("last.pt.tmp", "last.pt")
    assert load("last.pt") == step

for step in range(8):
    save(step, f"step{step}.pt")
    if step >= 2:
        os.remove(f"step{step - 2}.pt")
print(sorted(os.listdir()), load("step7.pt"))

for step in range(4):
    os.mkdir("checkpoint.tmp")
    for shard in range(3):
        save(step, f"checkpoint.tmp/{shard}.pt")
    with open("checkpoint.tmp/meta.json", "w") as f:
        f.write(f'{{"step": {step}}}')
    os.rename("checkpoint.tmp", f"checkpoint-{step}")
    with open("latest", "w") as f:
        f.write(f"checkpoint-{step}")
    if step:
        shutil.rmtree(f"checkpoint-{step - 1}")
    with open("latest") as f:
        assert load(f.read() + "/2.pt") == step

save(1, "e1.pt")
os.symlink("e1.pt", "newest")
save(2, "newest")
save(3, "e2.pt")
os.symlink("e2.pt", ".t")
os.replace(".t", "newest")
assert load("e1.pt") == 2 and load("newest") == 3 and os.readlink("newest") == "e2.pt"

for step in range(6):  # in place, two in turn
    save(step, f"turn{step % 2}.pt")
    assert load(f"turn{step % 2}.pt") == step
os.makedirs("moved/deep")
save(9, "moved/deep/a.pt")
shutil.move("moved", "there")
print(load("there/deep/a.pt"), sorted(os.listdir("there")))
