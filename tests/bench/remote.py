# SPDX-License-Identifier: BSD-3-Clause
"""The rows about a store on another machine: both ends on this one, the pool in memory.

Seconds and processor seconds a GiB, from the first write of a file until the store has committed it, and of its
restore into memory. By RDMA only where this machine has a device (soft-RoCE will do) with an IPv4 address.
"""
import glob
import hashlib
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import programs
from lib import agents, program

CTL = os.path.join(program.BUILD, "portusctl")
SAVE = """
import os, sys, time
log, size = sys.argv[2], int(sys.argv[3])
piece = os.urandom(1 << 20)
for number, (name, count) in enumerate((("first.ckpt", 4), ("large.ckpt", size)), 1):
    began = time.monotonic()
    with open(os.path.join(sys.argv[1], name), "wb", 0) as f:
        for _ in range(count):
            f.write(piece)
    while open(log).read().count("the store has it") < number:
        time.sleep(0.002)
        if time.monotonic() - began > 300:
            sys.exit("it is not kept")
    print(time.monotonic() - began, flush=True)
    if number == 1:
        sys.stdin.readline()
"""


def rdma_address():
    """An IPv4 address of an RDMA device that is active, or None."""
    for state in sorted(glob.glob("/sys/class/infiniband/*/ports/1/state")):
        with open(state, encoding="ascii") as f:
            active = "ACTIVE" in f.read()
        for name in sorted(glob.glob(os.path.join(os.path.dirname(state), "gids/*"))) if active else ():
            with open(name, encoding="ascii") as f:
                found = re.fullmatch(r"0000:0000:0000:0000:0000:ffff:(..)(..):(..)(..)", f.read().strip())
            if found:
                return ".".join(str(int(part, 16)) for part in found.groups())
    return None


def seconds(pids):
    """Processor time of these processes so far."""
    total = 0.0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


def once(store, key, daemon, directory, memory, mib):
    """One save and one restore: seconds a GiB of the wall, and of processors."""
    job, log = f"bench-remote-{os.getpid()}", os.path.join(directory, "log")
    open(log, "w", encoding="ascii").close()
    env = program.environment(job, "all", PORTUS_STORE=store, PORTUS_KEY=key, PORTUS_LOG=f"debug:{log}")
    for name in glob.glob(os.path.join(directory, "*.ckpt")):
        os.unlink(name)
    try:
        with subprocess.Popen([sys.executable, "-c", SAVE, directory, log, str(mib)], env=env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            carriers = agents.stores(store, "portus-carrier")
            before = seconds([daemon]), seconds(carriers)
            process.stdin.write("\n")
            process.stdin.close()
            kept = process.stdout.readline()
            after = seconds([daemon]), seconds(carriers)
        if not kept:
            raise programs.Skip(f"{store}: the file was not kept")
        path, out = os.path.join(directory, "large.ckpt"), os.path.join(memory, "out")
        before_back, began = seconds([daemon]), time.monotonic()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([CTL, "restore", "--to", out, path], env=program.environment(job, None, PORTUS_STORE=store, PORTUS_KEY=key),
                       check=True, stdout=subprocess.DEVNULL)
        back, theirs = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if digest(out + path) != digest(path):
            raise RuntimeError(f"{store}: other bytes were restored")
        shutil.rmtree(out)
        gib = mib / 1024
        return {"keep": float(kept) / gib, "keep_store": (after[0] - before[0]) / gib, "keep_node": (after[1] - before[1]) / gib,
                "back": back / gib, "back_store": (seconds([daemon]) - before_back) / gib,
                "back_node": (theirs.ru_utime + theirs.ru_stime - used.ru_utime - used.ru_stime) / gib}
    finally:
        agents.kill(job)


def remote(scheme, pool):
    """The function that measures it."""
    def measure(options, progress):
        progress(f"store-{scheme}")
        host = "127.0.0.1" if scheme == "tcp" else rdma_address()
        if host is None:
            raise programs.Skip("no RDMA device with an IPv4 address is here")
        mib, found = int(options.size * 1024), {}
        with pool(options.size * 4 + 0.1) as path, tempfile.TemporaryDirectory(dir=options.dir) as directory:
            with socket.socket() as s:
                s.bind((host, 0))
                store = f"{scheme}://{host}:{s.getsockname()[1]}"
            key = os.path.join(directory, "key")
            subprocess.run([CTL, "key", "bench", key], check=True, stdout=subprocess.DEVNULL)
            daemon = subprocess.Popen([os.path.join(program.BUILD, "portusd"), "--listen", store, "--keys", key, path],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(1)
                for _ in range(options.rounds):
                    for name, value in once(store, key, daemon.pid, directory, os.path.dirname(path), mib).items():
                        found.setdefault(name, []).append(value)
            finally:
                daemon.terminate()
                daemon.wait()
        return found
    return measure


def rows(results, one):
    for scheme in "tcp", "rdma":
        of = results.get(f"store-{scheme}")
        if of:
            one(f"`{scheme}://`, saved and committed: s a GiB", of["keep"])
            one("— processor s a GiB: the store's", of["keep_store"])
            one("— the node's", of["keep_node"])
            one(f"`{scheme}://`, restored into memory: s a GiB", of["back"])
            one("— processor s a GiB: the store's", of["back_store"])
            one("— the node's", of["back_node"])
