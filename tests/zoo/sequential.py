# SPDX-License-Identifier: BSD-3-Clause
# A FUSE that takes sequential writes of new files only, as those before object stores do.
# Right: left alone unless PORTUS_SHARED says otherwise; with it what the program writes in sequence arrives in sequence, and a
# patch fails as it does plainly.
# run: script root by=check-zoo timeout=200
import os
import shutil
import subprocess
import sys

from lib import agents, program, summary, trial

HERE = os.path.dirname(os.path.abspath(__file__))
# A checkpoint in sequence, its name when it is whole; then one with a patch, whose error is printed.
SAVE = r"""
import os
block = bytes(range(256)) * 8192
for step in range(3):
    with open("new.ckpt", "xb", buffering=0) as f:
        f.write(b"PK\3\4")
        for i in range(6):
            f.write(i.to_bytes(8, "little"))
            f.write(block)
        if step == 1:
            os.fsync(f.fileno())
    os.rename("new.ckpt", f"{step}.ckpt")
os.unlink("0.ckpt")
error = None
try:
    with open("patched.ckpt", "xb", buffering=0) as f:
        f.write(b"PK\3\4" + block)
        f.seek(0)
        f.write(b"patch")
        f.flush()
        os.fsync(f.fileno())
except OSError as e:
    error = e.errno
print(error, sorted(os.listdir()), os.path.getsize("1.ckpt"))
"""
if not shutil.which("pkg-config"):
    trial.skip("not installed: pkg-config")
flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False)
if flags.returncode:
    trial.skip("not installed: libfuse3-dev (sh scripts/install-deps zoo)")
exe = f"{trial.TOP}/fuse"
subprocess.run(["gcc", "-O1", "-o", exe, f"{HERE}/sequential_fuse.c", *flags.stdout.split()], check=True)
below, mount = trial.fresh(), trial.fresh()
if subprocess.run([exe, below, mount], capture_output=True, check=False).returncode:
    trial.skip("no FUSE can be mounted here")
try:
    argv = [sys.executable, "-c", SAVE]
    for more, least in (({}, 0), ({"PORTUS_SHARED": "1"}, 3), ({"PORTUS_SHARED": "2"}, 3)):
        a, b = trial.fresh(mount), trial.fresh(mount)
        plain = program.run(argv, a, program.environment(trial.JOB), 60)
        out = program.run(argv, b, program.environment(trial.JOB, "all", **more), 60)
        trial.expect(plain.status == 0 and b"22 [" in plain.out, f"plainly: {plain.how()}", plain)
        trial.expect(out.status == 0 and out.out == plain.out, f"{more}: {out.how()}: {out.out}, plainly {plain.out}", out)
        for name in os.listdir(a):
            with open(f"{a}/{name}", "rb") as f, open(f"{b}/{name}", "rb") as g:
                trial.expect(f.read() == g.read(), f"{more}: {name} differs", out)
        count = summary.captured(out.err) or 0
        trial.expect(count >= least if least else count == 0, f"{more}: captured {count} files", out)
        print(f"{more}: {count} files captured, {out.out.decode().strip()}")
finally:
    agents.until(lambda: not agents.held(trial.JOB, mount), 10)
    subprocess.run(["umount", mount], check=False)
