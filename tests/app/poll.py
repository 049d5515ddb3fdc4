# SPDX-License-Identifier: BSD-3-Clause
# Another process without the shim looks for the file all the time and loads what it finds.
# Right: after the rename it only ever sees whole files, and each step it sees is new or the last.
# run: needs=torch modes=default captures=10
import os
import subprocess
import sys
import time

import torch

w = torch.arange(1 << 22, dtype=torch.float32)
POLL = """import collections, os, torch
n = collections.Counter(); last = -1
w = torch.arange(1 << 22, dtype=torch.float32)
print("ready", flush=True)
while not os.path.exists("stop"):
    try:
        loaded = torch.load("a.pt", weights_only=True)
        n["right" if torch.equal(loaded["w"], w + loaded["step"]) and loaded["step"] >= last else "WRONG"] += 1
        last = loaded["step"]
    except FileNotFoundError: n["missing"] += 1
    except Exception as e: n[type(e).__name__] += 1
print({k: True for k in sorted(n)})"""
env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
reader = subprocess.Popen([sys.executable, "-c", POLL], env=env, stdout=subprocess.PIPE, text=True)
assert reader.stdout.readline() == "ready\n"
time.sleep(0.2)
for step in range(10):
    torch.save({"step": step, "w": w + step}, "new.pt")
    os.replace("new.pt", "a.pt")
    time.sleep(0.05)
open("stop", "w").close()
print(reader.stdout.read(), end="")
print(reader.wait())
