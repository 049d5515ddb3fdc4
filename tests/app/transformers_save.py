# SPDX-License-Identifier: BSD-3-Clause
# Hugging Face: save_pretrained and from_pretrained of a small model, in one file and in shards.
# Right: the same files; what loads computes the same.
# run: needs=torch,transformers captures=1 timeout=180 modes=all
import os
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=256, vocab_size=8000)).eval()
ids = torch.arange(20).view(1, 20)
with torch.no_grad():
    expected = model(ids).logits
    for directory, shard in (("whole", "5GB"), ("shards", "4MB")):
        for _ in range(2):
            model.save_pretrained(directory, max_shard_size=shard)
            loaded = GPT2LMHeadModel.from_pretrained(directory).eval()
            assert torch.equal(loaded(ids).logits, expected)
            loaded.save_pretrained(directory, max_shard_size=shard)  # onto what it is mapped from
        print(sorted(os.listdir(directory)))
