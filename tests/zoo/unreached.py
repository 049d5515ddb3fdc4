# SPDX-License-Identifier: BSD-3-Clause
# Programs that the shim does not reach share files with one that it does, while those are being drained: static ones, musl,
# 32 bits, Go, Rust with system calls of its own. They read, patch, append to, cut, rename, link, remove and copy them, and
# write descriptors that they inherit.
# Right: they run untouched and see whole files; in the end all is as without the shim.
# run: script timeout=600
import os
import shutil
import subprocess
import sys

from lib import program, summary, trial

HERE = os.path.dirname(os.path.abspath(__file__))
# Keeps a file open, writes on after each thing that the other one did to it.
SHARE = r"""
import os, subprocess, sys
other, block = sys.argv[1], bytes((i * 7 + i // 251) & 255 for i in range(1 << 20)) * 12
def do(*words, **more):
    print(words[0], subprocess.run([other, *map(str, words)], stdout=subprocess.PIPE, text=True, **more).stdout.split(), flush=True)
for verb in "digest patch append truncate rename link unlink inherited copy".split():
    path = verb + ".ckpt"
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o644)
    print(os.write(fd, block))
    if verb == "inherited":
        do(verb, fd, pass_fds=[fd])
    else:
        do(verb, path, verb + ".other")
    print(os.write(fd, block[:5 << 20]), os.lseek(fd, 0, os.SEEK_CUR), os.fstat(fd).st_size)
    os.pwrite(fd, b"last", 3)
    os.close(fd)
    name = next((n for n in (path, verb + ".other") if os.path.exists(n)), None)
    if name:
        do("digest", name)
        do("copy", name, "copied")
        os.rename("copied", verb + ".copied")
# A file of the other's, written over by the shimmed one, then read by the other at once.
do("copy", "digest.ckpt", "its.ckpt")
with open("its.ckpt", "wb", buffering=0) as f:
    f.write(block)
do("digest", "its.ckpt")
with open("its.ckpt", "r+b", buffering=0) as f:
    f.write(block[:99])
do("append", "its.ckpt")
print(os.path.getsize("its.ckpt"))
"""


def build(kind, argv):
    """Its path, or None where it cannot be built here."""
    exe = os.path.join(trial.TOP, kind)
    if not shutil.which(argv[0]):
        print(f"{kind}: no {argv[0]}")
        return None
    env = {**os.environ, "GOCACHE": os.path.join(trial.TOP, "go-cache"), "GO111MODULE": "off", "CGO_ENABLED": "0"}
    env.pop("LD_PRELOAD", None)
    made = subprocess.run([a.replace("OUT", exe) for a in argv], capture_output=True, text=True, check=False, env=env)
    if made.returncode:
        print(f"{kind}: cannot be built here: {(made.stderr.strip().splitlines() or ['?'])[0]}")
        return None
    return exe


C, compiler = f"{HERE}/other.c", os.environ.get("CC", "gcc")
kinds = {"static": [compiler, "-O1", "-static", "-o", "OUT", C],
         "32-bit": [compiler, "-O1", "-m32", "-D_FILE_OFFSET_BITS=64", "-o", "OUT", C],
         "32-bit-static": [compiler, "-O1", "-m32", "-static", "-D_FILE_OFFSET_BITS=64", "-o", "OUT", C],
         "musl": ["musl-gcc", "-O1", "-o", "OUT", C], "musl-static": ["musl-gcc", "-O1", "-static", "-o", "OUT", C],
         "go": ["go", "build", "-o", "OUT", f"{HERE}/other.go"], "rust": ["rustc", "-O", "-o", "OUT", f"{HERE}/other.rs"]}
ran, whole = [], os.environ.get("CHECK") == "check-zoo"
for kind, argv in kinds.items():
    if not whole and kind not in ("musl", "rust"):
        continue
    exe = build(kind, argv)
    if exe is None:
        continue
    wrapped = os.path.join(trial.TOP, "other")  # one name for all, as it is printed nowhere
    os.replace(exe, wrapped)
    for mode in ("all", "ring") if whole else ("all",):
        a, b = trial.fresh(), trial.fresh()
        argv = [sys.executable, "-c", SHARE, wrapped]
        plain = program.run(argv, a, program.environment(trial.JOB), 60)
        out = program.run(argv, b, program.environment(trial.JOB, mode), 120)
        trial.expect(plain.status == 0 and b"[]" not in plain.out, f"{kind}: plainly: {plain.how()}", plain)
        lines = zip(plain.out.decode().splitlines(), out.out.decode().splitlines())
        trial.expect(out.status == 0 and out.out == plain.out,
                     f"{kind}, {mode}: {out.how()}: {[pair for pair in lines if pair[0] != pair[1]]}", out)
        noise = [line for line in summary.without(out.err).splitlines() if b"LD_PRELOAD" not in line]
        trial.expect(noise == plain.err.splitlines(), f"{kind}, {mode}: standard error", out)
        trial.same(a, b, f"{kind}, {mode}", out)
        trial.expect((summary.captured(out.err) or 0) >= 9, f"{kind}, {mode}: captured too few", out)
        shutil.rmtree(a), shutil.rmtree(b)
    ran.append(kind)
print(*ran)
if not ran:
    trial.skip("nothing can be built here (sh scripts/install-deps zoo)")
