# SPDX-License-Identifier: BSD-3-Clause
# accelerate: save_state and load_state, twice, with automatic names and a limit of two.
# Right: the same files; the state comes back.
# run: needs=torch,accelerate captures=2 timeout=180 modes=all loose=random_states_0.pkl
import os
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from accelerate.utils import ProjectConfiguration  # noqa: E402

torch.manual_seed(1)
accelerator = Accelerator(cpu=True, project_config=ProjectConfiguration(
    project_dir="p", automatic_checkpoint_naming=True, total_limit=2))
model = torch.nn.Linear(1024, 1024)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for step in range(4):
    loss = model(torch.ones(2, 1024) * step).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.save_state(safe_serialization=step % 2 == 0)
    before = accelerator.unwrap_model(model).weight.detach().clone()
    with torch.no_grad():
        accelerator.unwrap_model(model).weight.zero_()
    accelerator.load_state(f"p/checkpoints/checkpoint_{step}")
    assert torch.equal(accelerator.unwrap_model(model).weight, before)
for top, _, files in sorted(os.walk("p")):
    print(top, sorted(files))
accelerator.save_model(model, "m")
