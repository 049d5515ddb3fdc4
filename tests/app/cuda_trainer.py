# SPDX-License-Identifier: BSD-3-Clause
# Hugging Face's Trainer on a GPU (tests/emu): a few steps, checkpoints of two steps kept, resumed.
# Right: the same files.
# run: by=check-cuda cuda needs=torch,transformers,accelerate captures=4 referred=70 modes=default timeout=240 loose=training_args.bin
import contextlib
import io
import os
import warnings

warnings.simplefilter("ignore")
os.environ["EMU_DEVICES"] = "1"  # with more it is DataParallel, which wants NCCL
import torch  # noqa: E402
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments, logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()


class Model(PreTrainedModel):
    """Elementwise: the emulated GPU has no cuBLAS, and its kernels do nothing."""

    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.weights = torch.nn.ParameterList(torch.randn(600000 + 1024 * i) for i in range(4))
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, x, labels=None):
        return {"loss": sum((w * x.mean()).sum() for w in self.weights)}


def train(steps, resume):
    torch.manual_seed(1)
    arguments = TrainingArguments("ckpt", max_steps=steps, save_steps=1, save_total_limit=2, per_device_train_batch_size=2,
                                  report_to=[], disable_tqdm=True, logging_strategy="no", seed=1, max_grad_norm=0,
                                  optim="adamw_torch")
    data = [{"x": torch.full((8,), float(i)), "labels": 0} for i in range(16)]
    trainer = Trainer(Model(PretrainedConfig()), arguments, train_dataset=data)
    with contextlib.redirect_stdout(io.StringIO()):  # how fast it was
        trainer.train(resume_from_checkpoint=resume)
    trainer.save_model("model")
    return trainer.args.device


print(train(3, None), train(5, True))
for top, _, files in sorted(os.walk("ckpt")):
    print(top, sorted(files))
