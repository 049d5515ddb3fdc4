# SPDX-License-Identifier: BSD-3-Clause
# Lightning on a GPU (tests/emu): Trainer with ModelCheckpoint, last and best, and a resumed run.
# Right: the same files. Its checkpoints are gathered in a BytesIO: what it writes the CPU has copied already.
# run: by=check-cuda cuda needs=torch,lightning captures=4 modes=default timeout=240
import logging
import os
import warnings

warnings.simplefilter("ignore")
for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)
import lightning  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


class Model(lightning.LightningModule):
    """Elementwise: the emulated GPU has no cuBLAS, and its kernels do nothing."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.randn(500000 + 1024 * i) for i in range(4))

    def training_step(self, batch, _):
        return sum((w * batch[0].mean()).sum() for w in self.weights)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def fit(epochs, path=None):
    lightning.seed_everything(1, verbose=False)
    data = DataLoader(TensorDataset(torch.randn(8, 16)), batch_size=4)
    keep = ModelCheckpoint("ckpt", save_last=True, save_top_k=-1, every_n_epochs=1)
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="gpu", devices=1, callbacks=[keep], logger=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), data, ckpt_path=path)
    trainer.save_checkpoint("final.ckpt", weights_only=True)


fit(2)
fit(3, "ckpt/last.ckpt")
print(sorted(os.listdir("ckpt")))
for name in ("final.ckpt", "ckpt/last.ckpt"):
    state = torch.load(name, weights_only=False)["state_dict"]
    print(name, {k: (v.device.type, v.shape[0]) for k, v in state.items()})
