# SPDX-License-Identifier: BSD-3-Clause
# dd, cp, tar, rsync, cat, gzip, split, with the shim and without, on a file just saved.
# Right: each copy is whole, and nothing is taken for a hole. (GNU tar opens O_NONBLOCK, which
# does not wait for a file that is not whole yet: it is read before.)
# run: needs=numpy captures=1 captures-all=10 timeout=120
import os
import shutil
import subprocess
import time

import numpy as np

w = np.random.default_rng(1).standard_normal(1 << 21)
bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


def run(command, env=os.environ):
    print(command, subprocess.run(["bash", "-ec", command], env=env, check=False).returncode, flush=True)


commands = """cp a.npy b; cmp a.npy b
cp --sparse=always a.npy b; cmp a.npy b
cp --reflink=auto --sparse=auto a.npy b; cmp a.npy b
head -c 1 a.npy >/dev/null; tar -cSf t a.npy; tar -xOf t | cmp - a.npy; rm t
cat a.npy > b; cmp a.npy b
dd if=a.npy of=b bs=4M status=none; cmp a.npy b
dd if=a.npy of=b bs=1000003 conv=fsync status=none; cmp a.npy b
dd if=a.npy bs=1M oflag=append conv=notrunc of=b status=none; tail -c 16777344 b | cmp - a.npy
gzip -1 -n < a.npy > b; gzip -dc b | cmp - a.npy
split -b 5M a.npy part.; cat part.* | cmp - a.npy; rm part.*
install -m 600 a.npy b; cmp a.npy b
head -c 5000000 a.npy > b; cmp -n 5000000 a.npy b; truncate -s 3000000 b
mv a.npy b; cp b a.npy; cmp a.npy b""".splitlines()
for i, command in enumerate(commands):
    np.save("a.npy", w + i)
    run(command, bare)
    np.save("a.npy", w - i)
    run(command)

if shutil.which("rsync"):
    os.mkdir("src")
    np.save("src/a.npy", w)
    run("rsync -a src/ dst/", bare)
    time.sleep(1.2)
    run("rsync -a src/ dst/; cmp src/a.npy dst/a.npy", bare)
np.save("a.npy", w)
shutil.copyfile("a.npy", "c")
with open("a.npy", "rb") as i, open("d", "wb") as o:
    n = os.path.getsize("a.npy")
    while i.tell() < n:
        i.seek(os.sendfile(o.fileno(), i.fileno(), i.tell(), 1000001), 1)
run("cmp a.npy c; cmp a.npy d")
