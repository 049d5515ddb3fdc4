# SPDX-License-Identifier: BSD-3-Clause
# Shards, then a small pointer that is synced and renamed, then the step before is deleted.
# Right: at each step the pointer names a whole checkpoint, also for another process that only
# asks for sizes; deleting never fails, and nobody holds what was deleted.
# run: needs=torch captures=4
import os
import shutil
import subprocess

import torch

torch.manual_seed(1)
w = torch.randn(1 << 22)
env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


def put(path, text):
    with open(path + ".tmp", "w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


for step in range(5):
    os.mkdir(f"d{step}")
    torch.save({"step": step, "w": w}, f"d{step}/m.pt")
    put("latest", f"d{step}")
    print(subprocess.run("stat -c %s $(cat latest)/m.pt", shell=True, env=env, check=True,
                         capture_output=True, text=True).stdout, end="", flush=True)
    shutil.rmtree(f"d{step - 1}", ignore_errors=True)
os.mkdir("d")
torch.save(w, "d/m.pt")
shutil.rmtree("d")
print(subprocess.run("find /proc/[0-9]*/fd -lname \"$PWD/d/m.pt*\" 2>/dev/null; true", shell=True, env=env,
                     check=True, capture_output=True, text=True).stdout, end="")
print(torch.load(open("latest").read() + "/m.pt", weights_only=True)["step"], os.path.exists("d"))
