# SPDX-License-Identifier: BSD-3-Clause
# A temporary file on another file system, then shutil.move: EXDEV, so it is copied; both ways.
# Right: the target is complete and the source gone.
# run: needs=torch,fsspec captures-all=1
import os
import shutil
import tempfile

import fsspec
import torch

torch.manual_seed(1)
w = torch.randn(1 << 22)
with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
    tempfile.tempdir = memory
    fs, path = fsspec.core.url_to_fs(os.path.abspath("a.pt"))
    with fs.transaction, fs.open(path, "wb") as f:
        torch.save(w, f)
    assert torch.equal(torch.load("a.pt"), w)
    torch.save(w, "here.pt")
    shutil.move("here.pt", memory)
    assert not os.path.exists("here.pt")
    assert torch.equal(torch.load(memory + "/here.pt"), w)
    shutil.move(memory + "/here.pt", "back.pt")
    f = open("open.pt", "wb")
    torch.save(w, f)
    f.flush()
    shutil.copyfile("open.pt", memory + "/copy.pt")  # still open here
    f.write(b"more")
    f.close()
    shutil.copyfile(memory + "/copy.pt", "copy.pt")
    print(os.listdir(memory))
print(os.path.getsize("open.pt") - os.path.getsize("copy.pt"))
