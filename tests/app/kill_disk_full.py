# SPDX-License-Identifier: BSD-3-Clause
# The disk fills up in the middle of a save, on a small ext4.
# Right: the same exception as without the shim, at write, fsync or close; the older file is whole;
# with the space back, the next save is right.
# run: script root timeout=120
import os
import subprocess

from lib import program, summary, trial

SAVE = """
import os, sys
data = os.urandom(1 << 20) * 8
def put(name, pieces, size=len(data)):
    try:
        fd = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        try:
            for _ in range(pieces):
                left = memoryview(data)[:size]
                while left:
                    left = left[os.write(fd, left):]
            os.fsync(fd)
        finally:
            os.close(fd)
        return "saved"
    except OSError as e:
        return f"{type(e).__name__} {e.errno}"
print(put("old.ckpt", 1))
print(put("new.ckpt", 9))
print(0 < os.path.getsize("new.ckpt") <= 9 * len(data), os.path.getsize("old.ckpt"))
print(put("small.ckpt", 900, 40000))
os.unlink("new.ckpt"); os.unlink("small.ckpt")
print(put("next.ckpt", 2), os.path.getsize("next.ckpt"))
print(open("old.ckpt", "rb").read() == data and open("next.ckpt", "rb").read() == data * 2)
try:
    import torch
    w = torch.arange(16 << 20, dtype=torch.float32)
    torch.save(w, "torch.pt")
except ImportError: pass
except Exception as e: print(type(e).__name__)
"""
image, mount = os.path.join(trial.TOP, "image"), os.path.join(trial.TOP, "mount")
os.mkdir(mount)
with open(image, "wb") as f:
    f.truncate(48 << 20)
subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, stdout=subprocess.DEVNULL)


def run(mode):
    if subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, check=False).returncode:
        trial.skip("no loop mount here")
    try:
        python = program.python() if os.access(program.python(), os.X_OK) else "python3"
        out = program.run([python, "-c", SAVE], mount, program.environment(trial.JOB, mode), 60)
        for name in os.listdir(mount):
            if name != "lost+found":
                os.unlink(os.path.join(mount, name))
        return out
    finally:
        subprocess.run(["umount", mount], check=True)


plain = run(None)
trial.expect(plain.status == 0 and plain.out.startswith(b"saved\nOSError 28\n"), "plain: " + plain.how(), plain)
for mode in ("default", "all"):
    out = run(mode)
    trial.expect(out.status == plain.status and out.out == plain.out,
                 f"{mode}: {out.out.decode()!r}, plain {plain.out.decode()!r}", out)
    trial.expect((summary.captured(out.err) or 0) >= 2, f"{mode}: captured too few files", out)
