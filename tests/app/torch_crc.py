# SPDX-License-Identifier: BSD-3-Clause
# The CRC of torch.save, on disk and on tmpfs, to files, memory and a pipe.
# Right: torch's own bytes everywhere; unzip, zipfile and torch agree that they are sound.
# run: needs=torch captures=1 modes=default,exact timeout=120
import io
import os
import shutil
import subprocess
import tempfile
import zipfile

import torch
from torch.serialization import set_crc32_options

torch.manual_seed(1)
state = {f"t{i}": torch.randn(n) for i, n in
         enumerate([0, 1, 3, 15, 16, 17, 63, 255, 1023, 4099, 65537, 262144, 262145, 1 << 20, 3000001])}


def sound(name):
    with zipfile.ZipFile(name) as z:
        assert z.testzip() is None
    subprocess.run(["unzip", "-tq", name], check=True, stdout=subprocess.DEVNULL)
    loaded = torch.load(name, weights_only=True)
    assert all(torch.equal(state[k], loaded[k]) for k in state)


torch.save(state, "disk.pt")
sound("disk.pt")
with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
    name = os.path.join(memory, "shm.pt")
    torch.save(state, name)
    sound(name)
    shutil.copy(name, "shm.pt")
    with open(name, "wb") as f:
        torch.save(state, f)
    sound(name)
    os.rename(name, name + "2")
    shutil.move(name + "2", "moved.pt")
sound("moved.pt")
with open("buffer.pt", "wb") as f:
    stream = io.BytesIO()
    torch.save(state, stream)
    f.write(stream.getvalue())
sound("buffer.pt")
set_crc32_options(False)
torch.save(state, "without.pt")
set_crc32_options(True)
torch.save(state, "with.pt")
sound("with.pt")
receiver = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=open("pipe.pt", "wb"))
torch.save(state, receiver.stdin)
receiver.stdin.close()
print(receiver.wait())
sound("pipe.pt")
try:
    torch.save(state, "nowhere/a.pt")
except RuntimeError as e:
    print(str(e)[:60])
