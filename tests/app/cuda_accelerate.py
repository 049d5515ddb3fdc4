# SPDX-License-Identifier: BSD-3-Clause
# accelerate on a GPU (tests/emu): save_state, by pickle and by safetensors, save_model, load_state.
# Right: the same files; the state comes back.
# run: by=check-cuda cuda needs=torch,accelerate captures=4 referred=50 modes=default timeout=240 loose=random_states_0.pkl
import os
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from accelerate.utils import ProjectConfiguration  # noqa: E402


class Model(torch.nn.Module):
    """Elementwise: the emulated GPU has no cuBLAS, and its kernels do nothing."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.randn(600000 + 1024 * i) for i in range(4))

    def forward(self, x):
        return sum((w * x).sum() for w in self.weights)


torch.manual_seed(1)
accelerator = Accelerator(project_config=ProjectConfiguration(
    project_dir="p", automatic_checkpoint_naming=True, total_limit=2))
model = Model()
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9))
for step in range(4):
    accelerator.backward(model(torch.full((1,), 2.0).to(accelerator.device)))
    optimizer.step()
    optimizer.zero_grad()
    accelerator.save_state(safe_serialization=step % 2 == 0)
    before = [w.detach().cpu().clone() for w in accelerator.unwrap_model(model).weights]
    for w in accelerator.unwrap_model(model).weights:
        w.data.copy_(torch.zeros(w.shape))
    accelerator.load_state(f"p/checkpoints/checkpoint_{step}")
    assert all(torch.equal(w.detach().cpu(), b) for w, b in zip(accelerator.unwrap_model(model).weights, before))
accelerator.save_model(model, "m")
for top, _, files in sorted(os.walk("p")):
    print(top, sorted(files))
print(accelerator.device)
