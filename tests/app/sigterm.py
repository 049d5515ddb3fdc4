# SPDX-License-Identifier: BSD-3-Clause
# A batch system's SIGTERM: the handler saves, renames and leaves; workers get it too.
# Right: exit status 143 and the newest step, whole.
# run: needs=torch captures=2 exit=143
import os
import signal
import sys
import time

import torch

torch.manual_seed(1)
w = torch.randn(1 << 21)
workers = []
for _ in range(2):
    if (pid := os.fork()) == 0:
        time.sleep(60)
        os._exit(1)
    workers.append(pid)


def handler(*_):
    torch.save({"step": 7, "w": w}, "new.pt")
    os.replace("new.pt", "last.pt")
    for pid in workers:
        print(os.waitpid(pid, 0)[1], flush=True)
    sys.exit(143)


signal.signal(signal.SIGTERM, handler)
torch.save({"step": 6, "w": w}, "last.pt")
for pid in workers:
    os.kill(pid, signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
