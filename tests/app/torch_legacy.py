# SPDX-License-Identifier: BSD-3-Clause
# torch.save in the format before 1.6: a pickle followed by raw storages.
# Right: it loads as without the shim (its keys are addresses, so bytes differ).
# run: needs=torch captures=2 modes=all recheck loose=path.pt,file.pt,small.pt
import hashlib
import sys

import torch

torch.manual_seed(1)


def digest(name):
    loaded = torch.load(name, weights_only=True)
    h = hashlib.sha256()
    for key in sorted(loaded):
        h.update(key.encode() + loaded[key].numpy().tobytes())
    print(name, len(loaded), h.hexdigest())


names = "path.pt", "file.pt", "small.pt"
if sys.argv[1:] != ["check"]:
    state = {str(i): torch.randn(1000 * i * i + i) for i in range(40)}
    torch.save(state, "path.pt", _use_new_zipfile_serialization=False)
    digest("path.pt")
    with open("file.pt", "wb") as f:
        torch.save(state, f, _use_new_zipfile_serialization=False)
    torch.save({"s": torch.ones(3)}, "small.pt", _use_new_zipfile_serialization=False)
for name in names:
    digest(name)
