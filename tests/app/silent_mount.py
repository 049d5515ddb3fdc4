# SPDX-License-Identifier: BSD-3-Clause
# A FUSE, captured with PORTUS_SHARED, does not answer for a while (its daemon is stopped): in the middle of a write of the
# drain, of a close, while its program is killed; and in one process with two threads.
# Right: other programs of the job save to the disk, sync, rename, read back and end within seconds, as does another thread;
# portusctl status answers; and what waited is right when the FUSE answers again.
# run: script root timeout=400
import json
import os
import signal
import subprocess
import sys
import threading
import time

from lib import agents, program, summary, trial
from lib import writer as paper
from lib.silent import mount, silent

CTL = os.path.join(program.BUILD, "portusctl")
SAVE = [["mkdir", "s"], ["open", "s/a.ckpt"], ["write", 8 << 20, 1], ["fsync"], ["close"], ["rename", "s/a.ckpt", "s/b.ckpt"],
        ["open", "s/c.ckpt"], ["write", 4 << 20, 2], ["close"], ["open", "latest.new"], ["write", 9, 3], ["close"],
        ["rename", "latest.new", "latest"], ["unlink", "s/b.ckpt"]]
HUNG = [["open", "h.ckpt"], ["write", 2 << 20, 5], ["fsync"], ["pause"], ["write", 12 << 20, 6], ["pause"], ["close"],
        ["rename", "h.ckpt", "i.ckpt"]]
BOUND = 20
TRIES = 1 if program.SLOW == 1 else 5  # in a slow guest a program may not wait so long for the agent


def elsewhere(what, most):
    """A save on the disk, by a program of the same job."""
    for _ in range(TRIES):
        d = trial.fresh()
        out = program.finish(trial.writer(SAVE, d), most)
        trial.expect(out.status == 0, f"{what}: a save elsewhere: {out.how()}", out)
        trial.whole(SAVE, d, what, out)
        if (summary.captured(out.err) or 0) >= 3:
            break
    else:
        trial.fail(f"{what}: a save elsewhere is not captured", out)
    print(f"{what}: elsewhere {out.seconds:.1f} s", flush=True)


def go_on(process):
    process.stdin.write(b"x"), process.stdin.flush()


def hang(argv, d, next_word, **more):
    """
    A program that has captured what is to go to the FUSE, or waits for that, when the agent finds it silent. (The program itself asks
    the FUSE for a file's size, so that must not hang before.)
    """
    for _ in range(TRIES):
        process = program.start(argv, d, program.environment(trial.JOB, "all", **more), stdin=subprocess.PIPE)
        trial.until_line(process, "pause")
        if agents.held(trial.JOB, mount):
            worker = trial.an_agent()[1]
            os.kill(worker, signal.SIGSTOP)
            go_on(process)
            if next_word:
                trial.until_line(process, next_word)
            else:
                time.sleep(0.5)
            silent(True)
            if agents.kill_one(worker, signal.SIGCONT):  # else that took so long that its program has ended it
                if next_word:
                    go_on(process)
                return process
            silent(False)
        process.kill()
        out = program.finish(process, 10)
        subprocess.run(["sh", "-c", f"rm -f {mount}/*/*.ckpt"], check=True)  # only new files are captured
    trial.fail("no file of the silent file system is captured", out)


def hang_writer(ops, next_word, **more):
    d = trial.fresh(mount)
    return d, hang([*trial.WRITER, json.dumps(ops)], d, next_word, **more)


def status(what):
    out = program.run([CTL, "status"], trial.TOP, program.environment(trial.JOB), 10)
    trial.expect(out.status == 0 and not out.late, f"{what}: portusctl status: {out.how()}", out)


for what, shared, ops in (("a write, PORTUS_SHARED=1", 1, HUNG), ("a write, PORTUS_SHARED=2", 2, [*HUNG[:-2], ["pause"], *HUNG[-2:]])):
    d, process = hang_writer(ops, "pause", PORTUS_SHARED=shared)
    time.sleep(1)
    elsewhere(f"{what}, at first", BOUND)
    status(what)
    elsewhere(f"{what}, later", BOUND)
    trial.expect(process.poll() is None, f"{what}: it does not hang: {process.returncode}")
    silent(False)
    out = program.finish(process, BOUND)
    trial.expect(out.status == 0, f"{what}: {out.how()}", out)
    trial.expect((summary.captured(out.err) or 0) >= 1, f"{what}: not captured", out)
    trial.whole(ops, d, what, out)

# The close waits: what was captured is drained before.
what = "a close"
ops = [["open", "h.ckpt"], ["write", 2 << 20, 5], ["fsync"], ["pause"], ["close"]]
d, process = hang_writer(ops, None, PORTUS_SHARED=1)
time.sleep(1)
elsewhere(what, BOUND)
silent(False)
out = program.finish(process, BOUND)
trial.expect(out.status == 0, f"{what}: {out.how()}", out)
trial.whole(ops, d, what, out)

# It was closed, and the close did not wait: somebody may count on it, so what publishes waits until it is there.
what = "closed, PORTUS_SHARED=2"
ops = [["open", "h.ckpt"], ["write", 2 << 20, 5], ["fsync"], ["pause"], ["write", 3 << 20, 6], ["close"], ["pause"]]
d, process = hang_writer(ops, "pause", PORTUS_SHARED=2)
after = trial.writer(SAVE, trial.fresh())
time.sleep(9)
trial.expect(after.poll() is None, f"{what}: something was published before it")
silent(False)
for one in (process, after):
    out = program.finish(one, BOUND)
    trial.expect(out.status == 0, f"{what}: {out.how()}", out)
trial.whole(ops, d, what, out)

# Its program is killed; what it had written is there, as the kernel would have kept it.
what = "a killed program"
d, process = hang_writer([*HUNG[:-2], ["pause"], *HUNG[-2:]], "pause", PORTUS_SHARED=2)
time.sleep(2)
process.kill()
elsewhere(what, BOUND)
silent(False)
program.finish(process, BOUND)
trial.expect(agents.until(lambda: not agents.held(trial.JOB, mount), BOUND), f"{what}: its files are held")
disk, states = paper.look(d), paper.states(HUNG)
trial.expect(paper.passed_through(HUNG, states, disk, 3) is not None, f"{what}: { {n: len(v or b'') for n, v in disk.items()} }")

# Another thread of the same process.
THREADS = r"""
import os, sys, threading, time
data, mount = os.urandom(6 << 20), sys.argv[1]
fd = os.open(f"{mount}/t.ckpt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
os.write(fd, data); os.fsync(fd)
print("pause", flush=True); sys.stdin.read(1)
os.write(fd, data)
print("pause", flush=True); sys.stdin.read(1)
thread = threading.Thread(target=lambda: os.close(fd))
thread.start()
time.sleep(8)
for i in range(2):
    with open("a.ckpt", "wb", buffering=0) as f:
        f.write(data); os.fsync(f.fileno())
    os.rename("a.ckpt", "b.ckpt")
    assert open("b.ckpt", "rb").read() == data
print("saved", flush=True)
thread.join()
assert open(f"{mount}/t.ckpt", "rb").read() == 2 * data
print("both", flush=True)
"""
what = "another thread"
process = hang([sys.executable, "-c", THREADS, trial.fresh(mount)], trial.fresh(), "pause", PORTUS_SHARED=1)
began = time.monotonic()
timer = threading.Timer(8 + BOUND * program.SLOW, silent, [False])
timer.start()
trial.until_line(process, "saved")
took = time.monotonic() - began
timer.cancel()
trial.expect(took < 8 + BOUND * program.SLOW - 1, f"{what}: hangs, too: {took:.0f} s")
print(f"{what}: {took - 8:.1f} s", flush=True)
silent(False)
out = program.finish(process, BOUND)
trial.expect(out.status == 0 and out.out.endswith(b"both\n"), f"{what}: {out.how()}", out)
