# SPDX-License-Identifier: BSD-3-Clause
# Other libraries that are preloaded, before the shim and behind it: allocators, libeatmydata, libfaketime, fakeroot; and
# PRoot, which takes the system calls themselves.
# Right: what the program does with them alone, captured as ever; fsync means what it means with them.
# run: script by=check-zoo timeout=600
import glob
import os
import shutil
import sys

from lib import agents, program, summary, trial

# What an allocator or a clock could break: threads that allocate, fork, stdio, times, names, an end with a file open.
BUSY = r"""
import os, sys, threading, time
block = bytes(range(256)) * 12288
def save(i):
    for step in range(4):
        with open(f"{i}.new", "wb") as f:
            f.write(b"PK\3\4" + block * (step % 2 + 1))
            f.write(bytes([i, step]))
            f.flush()
            os.fsync(f.fileno())
        os.replace(f"{i}.new", f"{i}.ckpt")
        print(i, os.stat(f"{i}.ckpt").st_size) if i == 0 else None
threads = [threading.Thread(target=save, args=(i,)) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
if (pid := os.fork()) == 0:
    save(9)
    os._exit(7)
print(os.waitpid(pid, 0)[1])
f = open("last.ckpt", "wb", buffering=0)
f.write(block)
print(os.path.getsize("last.ckpt"), sorted(os.listdir()))
"""
SAVE = [sys.executable, "-c", BUSY]
LIBRARIES = "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"


def library(name):
    return next((p for d in LIBRARIES for p in glob.glob(f"{d}/{name}")), None)


def with_and_without(what, argv, first, files, **more):
    """Preloaded by itself, before the shim and behind it."""
    found = {}
    for mode, preload in ((None, [first]), ("all", [first, program.SHIM]), ("all", [program.SHIM, first]),
                          ("default", [program.SHIM, first])):
        d = trial.fresh()
        env = program.environment(trial.JOB, mode, LD_PRELOAD=":".join(preload), **more)
        out = program.run(argv, d, env, 60)
        trial.expect(not out.late and out.status == 0, f"{what}, {preload}: {out.how()}", out)
        if mode is None:
            found = d, out
            continue
        trial.expect(out.out == found[1].out and summary.without(out.err) == found[1].err,
                     f"{what}, {preload}: says other things", out)
        trial.same(found[0], d, f"{what}, {preload}", out)
        trial.expect((summary.captured(out.err) or 0) >= files, f"{what}, {preload}: captured too few", out)
        agents.kill(trial.JOB)  # the next has an agent that was started with its own libraries
    print(f"{what}: as by itself, {files} files captured at least", flush=True)


tried = 0
for what, name in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.2*"),
                   ("libeatmydata", "libeatmydata.so"), ("libfaketime", "faketime/libfaketimeMT.so.1"),
                   ("fakeroot, without its daemon", "libfakeroot/libfakeroot-sysv.so")):
    path = library(name)
    if path is None:
        print(f"{what}: not installed")
        continue
    more = {"FAKETIME": "2001-02-03 04:05:06"} if "faketime" in name else {}
    with_and_without(what, SAVE, path, 5, **more)
    with_and_without(what, [trial.test_program("fork_threads")], path, 1, **more)
    tried += 1

# Those that are commands, with the shim inside and outside of them.
SAVED = 'umask 022; "$0" "$@" && chown 5:6 0.ckpt && stat -c "%u %g %s" 0.ckpt && cmp 0.ckpt 1.ckpt; cp 0.ckpt b && stat -c "%u" b'
for command in (["fakeroot"], ["proot"], ["proot", "-0"], ["proot", "-r", "/", "-b", "/proc"]):
    if not shutil.which(command[0]):
        print(f"{command[0]}: not installed")
        continue
    a, out = trial.fresh(), None
    plain = program.run([*command, "sh", "-c", SAVED, *SAVE], a, program.environment(trial.JOB), 90)
    if plain.status != 0 and command[0] == "proot":
        print(f"{' '.join(command)}: does not run here: {plain.how()}")
        continue
    for inside in (False, True):
        b, env = trial.fresh(), program.environment(trial.JOB, "all")
        argv = [*command, "sh", "-c", SAVED, *SAVE]
        if inside:
            argv = [*command, "env", f"LD_PRELOAD={program.SHIM}", "sh", "-c", SAVED, *SAVE]
            if command[0] == "fakeroot":
                argv[2] = f'LD_PRELOAD={program.SHIM}:{os.path.basename(library("libfakeroot/libfakeroot-sysv.so"))}'
            env.pop("LD_PRELOAD")
        out = program.run(argv, b, env, 90)
        what = f"{' '.join(command)}, the shim {'inside' if inside else 'outside'}"
        trial.expect(not out.late and out.status == plain.status and out.out == plain.out,
                     f"{what}: {out.how()} {out.out}, without the shim {plain.how()} {plain.out}", out)
        trial.same(a, b, what, out)
        print(f"{what}: {summary.captured(out.err)} files captured", flush=True)
        agents.kill(trial.JOB)
    tried += 1
if not tried:
    trial.skip("none of them is installed (sh scripts/install-deps zoo)")
