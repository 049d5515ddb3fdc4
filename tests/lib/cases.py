# SPDX-License-Identifier: BSD-3-Clause
"""How real programs use checkpoint files: short programs, for tests that kill them.

Each runs in an empty directory, with the names of HEAD there.
"""

HEAD = """
import fcntl, io, os, pickle, shutil, sys, tempfile, zipfile
import numpy as np, torch
w = torch.arange(1 << 20, dtype=torch.float32)
def save(step, path): torch.save({"step": step, "w": w + step}, path)
def put(path, text):
    with open(path + ".t", "w") as f:
        f.write(text); f.flush(); os.fsync(f.fileno())
    os.replace(path + ".t", path)
"""

CASES = {
    # Shards, then the pointer to them by rename, then the step before goes.
    "pointer by rename": """
for step in (1, 2, 3):
    os.mkdir(f"d{step}")
    for shard in range(2): save(step, f"d{step}/{shard}.pt")
    put("latest", f"d{step}")
    shutil.rmtree(f"d{step - 1}", ignore_errors=True)
""",
    # The same, the pointer written in place.
    "pointer in place": """
for step in (1, 2, 3):
    os.mkdir(f"d{step}")
    save(step, f"d{step}/model.pt")
    with open("latest", "w") as f: f.write(f"d{step}")
    if step > 1: shutil.rmtree(f"d{step - 1}")
""",
    # One name, by a temporary one.
    "replace": """
for step in range(5):
    with open(f"t{step}", "wb") as f: torch.save(w + step, f)
    os.rename(f"t{step}", "last")
os.remove("last")
""",
    # A link to the newest, swapped, and written through.
    "links": """
save(1, "e1.pt"); os.symlink("e1.pt", "last.pt"); save(2, "last.pt"); save(3, "e2.pt")
os.symlink("e2.pt", ".t"); os.replace(".t", "last.pt"); os.link("e2.pt", "e3.pt"); os.unlink("e2.pt")
""",
    # A whole directory takes its place when it is full.
    "directory": """
for step in (1, 2, 3):
    os.mkdir("tmp")
    save(step, "tmp/model.pt"); np.save("tmp/rng.npy", w.numpy()[:1000])
    with open("tmp/state.json", "w") as f: f.write("{" + f'"step": {step}' + "}")
    os.rename("tmp", f"checkpoint-{step}")
    if step > 1: shutil.rmtree(f"checkpoint-{step - 1}")
""",
    # In place, over what was there: two names in turn.
    "in place": """
for step in range(6): save(step, f"turn{step % 2}.pt")
""",
    # Headers are patched after the data.
    "patched": """
np.savez("a.npz", a=w.numpy(), b=np.arange(3))
with zipfile.ZipFile("b.zip", "w") as z:
    for i in range(3):
        with z.open(zipfile.ZipInfo(f"m{i}"), "w", force_zip64=True) as f: f.write(w.numpy() + i)
np.savez("a.npz", a=w.numpy() + 1)
os.replace("b.zip", "c.zip")
""",
    # Through a file on another file system, copied inside the kernel.
    "moved": """
for step in (1, 2):
    with tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False) as f: torch.save(w + step, f)
    shutil.move(f.name, "last.pt")
    shutil.copyfile("last.pt", f"step{step}.pt")
""",
    # An existing file is opened for updates, in no order.
    "update": """
save(1, "a.bin")
with open("a.bin", "r+b", buffering=0) as f:
    for at in (3 << 20, 100, 2 << 20, 0): f.seek(at); f.write(bytes([at % 251]) * (1 << 20))
    f.truncate(3 << 20)
with open("b.bin", "wb", buffering=0) as f:
    buffer = bytearray(1 << 20)
    for i in range(6): buffer[:] = bytes([i]) * len(buffer); f.write(buffer)
    f.seek(1 << 19); f.write(b"z" * (1 << 20)); os.fsync(f.fileno()); f.write(b"end")
os.rename("b.bin", "a.bin")
""",
    # Temporary name made by Rust, which renames without libc; loads by mmap what it replaces.
    "safetensors": """
from safetensors.torch import load_file, save_file
save_file({"w": w}, "m.safetensors"); loaded = load_file("m.safetensors")
save_file({"w": loaded["w"] + 1}, "m.safetensors"); put("latest", "m.safetensors")
""",
    # Several processes, one pointer.
    "ranks": """
for step in (1, 2):
    children = []
    os.mkdir(f"s{step}")
    for rank in range(2):
        pid = os.fork()
        if pid == 0: save(step * 10 + rank, f"s{step}/{rank}.pt"); os._exit(0)
        children.append(pid)
        os.waitpid(pid, 0)
    put("latest", f"s{step}")
""",
}
