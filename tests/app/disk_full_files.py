# SPDX-License-Identifier: BSD-3-Clause
# Large and small files are saved until the disk is full, each closed before the next; small ones beside the large.
# Right: what write and close said to be written is there, whole.
# run: script root timeout=120
import os
import subprocess

from lib import program, summary, trial

SAVE = """
import os
data = os.urandom(1 << 20) * 100
kept = {}
def put(name, length):
    fd = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    done = 0
    try:
        while done < length:
            done += os.write(fd, memoryview(data)[done:length])
        os.close(fd)
        kept[name] = length
    except OSError as e:
        print(name, e.errno)
        os.close(fd)
put("a.ckpt", len(data))
for i in range(20): put(f"config{i}.pt", 2000 + i)
put("b.ckpt", len(data))
for i in range(20): put(f"late{i}.pt", 2000 + i)
print(sorted(kept))
os._exit(0)
"""
image, mount = os.path.join(trial.TOP, "image"), os.path.join(trial.TOP, "mount")
os.mkdir(mount)
with open(image, "wb") as f:
    f.truncate(150 << 20)
subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", image], check=True, stdout=subprocess.DEVNULL)
for mode in ("default", "all", "default", "all"):
    if subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, check=False).returncode:
        trial.skip("no loop mount here")
    try:
        out = program.run([program.python() if os.access(program.python(), os.X_OK) else "python3", "-c", SAVE],
                          mount, program.environment(trial.JOB, mode), 60)
        trial.expect(out.status == 0 and b" 28\n" in out.out, f"{mode}: {out.how()}", out)
        trial.expect((summary.captured(out.err) or 0) >= 2, f"{mode}: captured too few files", out)
        said = {name.decode() for name in out.out.splitlines()[-1].split(b"'")[1::2]}
        for name in sorted(os.listdir(mount)):
            path = os.path.join(mount, name)
            if name != "lost+found":
                whole = 100 << 20 if name.endswith(".ckpt") else 2000 + int("".join(filter(str.isdigit, name)))
                trial.expect(name not in said or os.path.getsize(path) == whole,
                             f"{mode}: {name} has {os.path.getsize(path)} bytes, {whole} had been written", out)
                os.unlink(path)
    finally:
        subprocess.run(["umount", mount], check=True)
