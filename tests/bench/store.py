# SPDX-License-Identifier: BSD-3-Clause
"""The rows about the store: portusd's pool by itself, and what it costs a program that saves.

The pool lies in memory (tmpfs at /dev/shm), as persistent memory would: no disk is measured but
where a row says so. Ratios to one thread's memcpy into the same bytes of the pool, or out of
them, in the same process, one after the other. The processor time of the thread counts (a pool
in memory waits for nothing), so that others who work on the machine disturb less.
"""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile

import machine
import programs
import remote
import saves
from lib import program
from table import middle

POOL = os.path.join(program.BUILD, "tests/bench/pool")
CTL = os.path.join(program.BUILD, "portusctl")
MEMORY = "/dev/shm"
OBJECTS = 1_000_000
LOAD = """
import os, sys, time, torch
for i in range(int(sys.argv[2])):
    if sys.argv[3] == "cold":
        with open(sys.argv[1], "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.perf_counter(), time.thread_time()
    torch.load(sys.argv[1])
    print(time.perf_counter() - began[0], time.thread_time() - began[1])
"""


@contextlib.contextmanager
def pool(gib, *more):
    """A new one in memory; Skip if there is no room for it."""
    room = shutil.disk_usage(MEMORY).free / programs.GIB if os.path.isdir(MEMORY) else 0
    if room < gib + 1:
        raise programs.Skip(f"{MEMORY} has no {gib + 1:.1f} GiB free")
    directory = tempfile.mkdtemp(prefix="portus-bench-", dir=MEMORY)
    try:
        path = os.path.join(directory, "pool")
        subprocess.run([CTL, "pool", "create", path, f"{int(gib * 1024)}M", *more], check=True,
                       stdout=subprocess.DEVNULL)
        yield path
    finally:
        shutil.rmtree(directory)


def ask(*words):
    done = subprocess.run([POOL, *map(str, words)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def pull(options, progress):
    """Pull and commit, and a restore into memory, against a memcpy of the same bytes; and torch.load."""
    progress("store-pull")
    with tempfile.TemporaryDirectory(dir=options.dir) as directory, pool(options.size * 1.1 + 0.1) as path:
        file = os.path.join(directory, "state.pt")
        code = f"import sys; sys.path.insert(0, {programs.HERE!r}); import save, torch; " \
               f"torch.save(save.make_state({int(options.size * programs.GIB)}), {file!r})"
        subprocess.run([program.python(), "-c", code], check=True)
        found = ask("pull", path, file, 4 + 4 * options.rounds)
        for how in "cached", "cold":
            done = subprocess.run([program.python(), "-c", LOAD, file, str(1 + options.rounds), how], check=True,
                                  stdout=subprocess.PIPE, text=True)
            times = [list(map(float, line.split())) for line in done.stdout.splitlines()[how == "cached":]]
            found[f"load_{how}"] = [wall for wall, _ in times]
    return found


def small(options, progress):
    """Commits of 1 MiB: in memory, and in a file on the disk, which is synced."""
    progress("store-small")
    with pool(0.2) as path:
        found = ask("small", path, 60)
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        path = os.path.join(directory, "pool")
        subprocess.run([CTL, "pool", "create", path, "128M"], check=True, stdout=subprocess.DEVNULL)
        found["disk"] = ask("small", path, 30)["take"]
    return found


def recover(options, progress):
    """Opening a pool of many objects, against one pass over the same bytes."""
    count = OBJECTS // 10 if options.quick else OBJECTS
    progress(f"store-recover: {count} objects")
    with pool(count * 2.5 / 1e6 + 0.1, "--objects", str(count + 1000)) as path:
        ask("fill", path, count)
        found = ask("open", path, 3 + 2 * options.rounds)
        found["change_cpu"] = ask("change", path, 60)["change_cpu"]
    found["memory_per_version"] = found["memory"] / found["versions"]
    return found


def stall(options, progress):
    """Seconds that a save keeps the program, with and without a store."""
    samples = {"shim": saves.Samples(), "store": saves.Samples()}
    for number in range(options.rounds):
        progress(f"store-stall: round {number + 1} of {options.rounds}")
        with pool(options.size * (options.pauses + options.burst + 2)) as path:
            row = "path", None, "path", None, None
            variants = {"shim": (True, {}), "store": (True, {"PORTUS_STORE": path})}
            saves.one_round(row, options, variants, samples)
            listed = subprocess.run([CTL, "versions", "--json", "--store", path, "/"], check=False,
                                    stdout=subprocess.PIPE, text=True)
            samples["store"].kept = len(json.loads(listed.stdout)["versions"]) if listed.returncode == 0 else 0
    machine.settle()
    return {key: {name: getattr(of, name) for name in ("pause", "back", "memcpy")} | {"kept": getattr(of, "kept", 0)}
            for key, of in samples.items()}


ROWS = {"store-pull": pull, "store-small": small, "store-recover": recover, "store-stall": stall,
        "store-tcp": remote.remote("tcp", pool), "store-rdma": remote.remote("rdma", pool)}


def rows(results):
    """[words, value, unit or limit, ratio] of what was measured."""
    found = []

    def one(words, value, limit=None, digits=3):
        of = f"{value['median']:.{digits}f} ({value['low']:.{digits}f}–{value['high']:.{digits}f})"
        against = f"{limit['median']:.{digits}f}" if limit else ""
        found.append([words, of, against, f"{limit['median'] / value['median']:.2f}" if limit else ""])

    if "store-pull" in results:
        of = results["store-pull"]
        gib = of["bytes"]["median"] / programs.GIB
        size = f"{gib:.2g} GiB"
        one(f"pull and commit {size}, CRC included: s; memcpy s", of["take_cpu"], of["memcpy_cpu"])
        one(f"pool to memory {size}, CRC checked: s; memcpy s", of["back_cpu"], of["memcpy_back_cpu"])
        one("the same, wall clock: s; torch.load from the page cache s", of["back"], of["load_cached"])
        one("the same, wall clock: s; torch.load from the disk s", of["back"], of["load_cold"])
    if "store-small" in results:
        of = results["store-small"]
        thousand = {key: {k: v * 1e3 if k != "samples" else v for k, v in of[key].items()}
                    for key in ("take_cpu", "memcpy_cpu", "disk")}
        one("commit of 1 MiB in memory: ms; memcpy ms", thousand["take_cpu"], thousand["memcpy_cpu"])
        one("commit of 1 MiB in a file on the disk: ms", thousand["disk"])
    if "store-recover" in results:
        of = results["store-recover"]
        count = int(of["versions"]["median"])
        one(f"opening a pool of {count} versions: s; CRC of all its bytes s", of["open_cpu"], of["read_cpu"])
        kept = {key: value * 1e3 for key, value in of["change_cpu"].items() if key in ("median", "low", "high")}
        one("keeping a file anew among them (look, room, commit, rename): ms", kept)
        found.append(["memory of the catalogue, bytes a version", f"{of['memory_per_version']['median']:.0f}", "", ""])
    if "store-stall" in results:
        of = results["store-stall"]
        one("a save with a store, after a pause: s; without s", of["store"]["pause"], of["shim"]["pause"])
        one("saves back to back with a store: s; without s", of["store"]["back"], of["shim"]["back"])
        found.append(["versions kept of the last process's saves", f"{of['store']['kept']['median']:.0f}", "", ""])
    remote.rows(results, one)
    return found


def prepare(tree):
    """Numbers as lists, so that all become medians."""
    if isinstance(tree, dict):
        return {key: prepare(value) for key, value in tree.items()}
    return tree if isinstance(tree, list) else [tree]
