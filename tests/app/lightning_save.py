# SPDX-License-Identifier: BSD-3-Clause
# Lightning: Trainer with ModelCheckpoint, last and best two, and a resumed run.
# Right: the same files and the same end.
# run: needs=torch,lightning captures=2 timeout=180 modes=all
import hashlib
import logging
import os
import sys
import warnings

warnings.simplefilter("ignore")
for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)
import lightning  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.Linear(1024, 512))

    def training_step(self, batch, _):
        loss = (self.net(batch[0]) - batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def fit(epochs, path=None):
    lightning.seed_everything(1, verbose=False)
    data = DataLoader(TensorDataset(torch.randn(64, 512)), batch_size=16)
    keep = ModelCheckpoint("ckpt", monitor="loss", save_top_k=2, save_last=True, every_n_epochs=1)
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[keep], logger=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), data, ckpt_path=path)
    trainer.save_checkpoint("final.ckpt", weights_only=True)


if sys.argv[1:] != ["check"]:
    fit(3)
    fit(4, "ckpt/last.ckpt")
print(sorted(os.listdir("ckpt")))
for name in ("final.ckpt", "ckpt/last.ckpt"):
    h = hashlib.sha256()
    for k, v in torch.load(name, weights_only=False)["state_dict"].items():
        h.update(k.encode() + v.numpy().tobytes())
    print(name, h.hexdigest())
