# SPDX-License-Identifier: BSD-3-Clause
# PORTUS_RESTORE=read: a file that is not in the page cache is read from the pool.
# Right: the same bytes and the same offset after every call, in small and large pieces, by torch, NumPy and
# plain calls, through copies of the descriptor and in children; the file's own bytes as soon as anybody has
# changed it, whatever its times say; and from the file where the pool is damaged, emptied or not in memory.
# run: script needs=torch,numpy timeout=600
import ctypes
import os
import signal
import subprocess

from lib import agents, cache, program, trial

D = trial.fresh()
POOL = os.path.join(trial.fresh(), "pool")
BIG = os.path.join(D, "big.pt")
SAVE = "import sys, torch; torch.manual_seed(int(sys.argv[1])); torch.save([torch.randn(1 << 20) for _ in range(6)] + " \
       "[torch.arange(12345)], 'big.pt')"
LOAD = """
import hashlib, numpy as np, torch
for t in torch.load("big.pt"): print(hashlib.sha256(t.numpy().tobytes()).hexdigest())
print(hashlib.sha256(np.fromfile("big.pt", dtype=np.uint8).tobytes()).hexdigest())
"""
# Each step is compared with what an mmap of the file holds, which no read of ours serves.
STEPS = """
import mmap, os, random, subprocess, sys, threading
fd = os.open("big.pt", os.O_RDONLY)
size = os.fstat(fd).st_size
truth = mmap.mmap(os.open("big.pt", os.O_RDONLY | os.O_NONBLOCK), size, prot=mmap.PROT_READ)
rng = random.Random(int(sys.argv[1]))
at = 0
def lengths(): return rng.choice((0, 1, 4096, 65536, 1 << 20, (1 << 20) + 1, 3 << 20, 5000000, size))
def check(got, offset, length, what):
    want = truth[offset:offset + length]
    assert got == want, (what, offset, length, len(got), len(want))
def step(fd):
    global at
    kind, length = rng.randrange(8), lengths()
    if kind < 4:
        got = os.read(fd, length); check(got, at, length, "read"); at += len(got)
    elif kind == 4:
        offset = rng.randrange(size + 10); check(os.pread(fd, length, offset), offset, length, "pread")
    elif kind == 5:
        at = os.lseek(fd, rng.randrange(size), os.SEEK_SET)
    elif kind == 6:
        b = bytearray(length); n = os.readv(fd, [b]); check(bytes(b[:n]), at, length, "readv"); at += n
    else:
        offset = rng.randrange(size); b = bytearray(length); n = os.preadv(fd, [b], offset)
        check(bytes(b[:n]), offset, length, "preadv")
    assert os.lseek(fd, 0, os.SEEK_CUR) == at, ("offset", at)
for i in range(60): step(fd)
if sys.argv[2] == "dup":
    other = os.dup(fd); os.dup2(fd, 77)
    for i in range(60): step(rng.choice((fd, other, 77)))
elif sys.argv[2] == "fork":
    at = os.lseek(fd, 0, os.SEEK_SET)
    if os.fork() == 0:
        check(os.read(fd, 2 << 20), 0, 2 << 20, "child"); os._exit(0)
    assert os.wait()[1] == 0
    at = 2 << 20
    for i in range(30): step(fd)
elif sys.argv[2] == "spawn":
    at = os.lseek(fd, 0, os.SEEK_SET)
    out = subprocess.run(["head", "-c", "1000000"], stdin=fd, capture_output=True, check=True).stdout
    check(out, 0, 1000000, "spawned"); at = os.lseek(fd, 0, os.SEEK_CUR)
    for i in range(30): step(fd)
elif sys.argv[2] == "threads":
    at = os.lseek(fd, 0, os.SEEK_SET); parts = []
    def look():
        while b := os.read(fd, 1 << 20): parts.append(b)
    threads = [threading.Thread(target=look) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert sum(map(len, parts)) == size, "parts of it twice, or not at all"
elif sys.argv[2] == "close":
    open("other", "wb").write(b"x" * size)
    os.close(fd); other = os.open("other", os.O_RDONLY); assert other == fd
    assert os.read(other, size) == b"x" * size, "another file's bytes"
    os.dup2(other, 55); os.close(other)
    assert os.open("big.pt", os.O_RDONLY) == other
    os.closerange(other, other + 1); os.open("other", os.O_RDONLY)
    assert os.read(other, size) == b"x" * size, "another file's bytes"
    wo = os.open("big.pt", os.O_WRONLY | os.O_APPEND); os.dup2(wo, other)
    try: os.read(other, 10)
    except OSError: pass
    else: raise AssertionError("read what is open for writing")
elif sys.argv[2] == "address":
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    for length in (1000, 5 << 20):
        at = os.lseek(fd, 100, os.SEEK_SET)
        assert libc.read(fd, ctypes.c_void_p(8), length) == -1 and ctypes.get_errno() == 14, "no EFAULT"
        for i in range(10): step(fd)
elif sys.argv[2] == "changed":
    before = os.stat("big.pt")
    subprocess.run([sys.executable, "-c", sys.argv[3]], check=True, env={})
    os.utime("big.pt", ns=(before.st_atime_ns, before.st_mtime_ns))
    size = os.fstat(fd).st_size
    truth = open("big.pt", "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)).read()
    at = os.lseek(fd, 0, os.SEEK_SET)
    for i in range(30): step(fd)
print("ok")
"""


def env(mode="default", **more):
    return program.environment(trial.JOB, mode, **{"PORTUS_STORE": POOL, "PORTUS_SAMPLE": "0", "PORTUS_SUMMARY": "0",
                                                   "PORTUS_RESTORE": "read", "PORTUS_LOG": "debug", **more})


def ctl(*arguments):
    return subprocess.run([os.path.join(program.BUILD, "portusctl"), *arguments], env=env(None), capture_output=True,
                          text=True, check=False, timeout=60)


def run(code, *arguments, **more):
    out = program.run([program.python(), "-c", code, *arguments], D, env(**more), 100)
    trial.expect(out.status == 0, out.how(), out)
    return out


def is_cold(path):
    """How much of it is not in the page cache, 0 to 1."""
    fd, answer = os.open(path, os.O_RDONLY), (ctypes.c_uint64 * 5)()
    done = ctypes.CDLL(None).syscall(451, fd, (ctypes.c_uint64 * 2)(0, 0), answer, 0)  # cachestat(2)
    os.close(fd)
    if done != 0:
        trial.skip("the kernel does not say what is in the page cache (Linux 6.5)")
    return 1 - answer[0] * 4096 / os.path.getsize(path)


def save(seed):
    number = newest()
    run(SAVE, str(seed), PORTUS_LOG="warn")
    trial.expect(agents.until(lambda: newest() > number, 20, 0.1), f"save {seed} is not kept")
    prepare()


def newest():
    words = ctl("versions", BIG).stdout.split("\n")[-2:-1]
    return int(words[0].split()[0]) if words else 0


def prepare():
    cache.hot(POOL)
    cache.cold(BIG)
    trial.expect(is_cold(BIG) > 0.9, "the test cannot make a file cold here")


SERVED = b"is read from"
trial.expect(ctl("pool", "create", POOL, "192M").returncode == 0, "no pool")
try:
    save(1)
    out = run("import torch; torch.load('big.pt')")
    trial.expect(SERVED in out.err, "not read from the pool", out)
    trial.expect(is_cold(BIG) > 0.9, f"the file was read, {1 - is_cold(BIG):.2f} of it", out)
    out = run(LOAD)
    trial.expect(SERVED in out.err, "not read from the pool", out)
    plain = run(LOAD, mode=None)
    trial.expect(out.out == plain.out, "it loads something else", out)
    prepare()
    trial.expect(SERVED not in run(LOAD, PORTUS_RESTORE="auto").err, "read from the pool without being asked")
    trial.expect(SERVED not in run(LOAD).err, "read from the pool though it is in the page cache")

    for seed, more in enumerate(("", "dup", "fork", "spawn", "threads", "close", "address")):
        prepare()
        out = run(STEPS, str(seed), more)
        trial.expect(out.out == b"ok\n" and SERVED in out.err, f"{more}: {out.out}", out)

    # Changed in between by somebody without the shim, and its time of modification set back.
    for seed, change in enumerate((
            "f = open('big.pt', 'r+b'); f.seek(1 << 20); f.write(b'changed' * 300000)",
            "import mmap, os; f = open('big.pt', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[5 << 20:(5 << 20) + 3] = b'xyz'",
            "import os; os.truncate('big.pt', 7 << 20)",
            "import os; os.truncate('big.pt', 7 << 20); os.truncate('big.pt', 26 << 20)")):
        save(10 + seed)
        out = run(STEPS, str(seed), "changed", change)
        trial.expect(out.out == b"ok\n" and SERVED in out.err, f"{change}: {out.out}", out)
        cache.cold(BIG)
        trial.expect(SERVED not in run(STEPS, "1", "").err, "a changed file is read from the pool")

    # The version goes, and its room is used anew, while it is read; portusd is killed.
    save(20)
    number = newest()
    rest = f"""
fd = os.open("big.pt", os.O_RDONLY); os.read(fd, 3 << 20)
subprocess.run([{os.path.join(program.BUILD, 'portusctl')!r}, "rm", "--store", {POOL!r}, "--version", "{number}",
                "big.pt"], check=True, stdout=subprocess.DEVNULL)
for i in range(3):
    open("new.pt", "wb").write(b"PK\\3\\4" + os.urandom(30 << 20))
    import time; time.sleep(1)
at = 3 << 20; os.lseek(fd, at, 0)
for i in range(60): step(fd)
"""
    out = run(STEPS + rest, "3", "")
    trial.expect(out.out == b"ok\n" and SERVED in out.err, "after the version was removed", out)
    save(21)
    for pid in agents.stores(POOL):
        os.kill(pid, signal.SIGKILL)
    out = run(LOAD)
    trial.expect(SERVED in out.err and out.out == run(LOAD, mode=None).out, "without portusd", out)

    # The pool is not in memory; then damaged.
    prepare()
    agents.kill(trial.JOB)
    cache.cold(POOL)
    out = run(LOAD)
    trial.expect(out.out == run(LOAD, mode=None).out, "from a cold pool", out)
    with open(BIG, "rb") as f:
        f.seek(10 << 20)
        part = f.read(4096)
    with open(POOL, "r+b") as f:
        data, count = f.read(), 0
        at = data.find(part)
        while at >= 0:
            f.seek(at + 100)
            f.write(b"damage")
            count, at = count + 1, data.find(part, at + 1)
    trial.expect(count > 0, "the test does not find the bytes in the pool")
    prepare()
    out = run(LOAD)
    trial.expect(b"is damaged" in out.err, "nothing of the damage", out)
    trial.expect(out.out == run(LOAD, mode=None).out, "damaged bytes", out)
finally:
    trial.end_stores(POOL)
