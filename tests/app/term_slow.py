# SPDX-License-Identifier: BSD-3-Clause
# A batch system ends a job: SIGTERM to all of it, agent included, SIGKILL to all of it later, while the drain is slow. The
# handler saves once more and renames that over the last checkpoint. Once there is time enough, once there is not.
# Right: the handler's checkpoint stands whole, or the one before does, and it is the handler's if the program came to its
# end; the agent says how much is left and how long that takes, and so does the program where it waits.
# run: script timeout=180
import os
import re
import shutil
import signal
import stat
import subprocess
import time

from lib import agents, program, trial

RATE = 20 << 20  # bytes a second, of a drain that is alone
# What the agent writes with is made as slow as that.
SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    if (!real) real = (ssize_t (*)(int, const struct iovec *, int, off_t, int))dlsym(RTLD_NEXT, "pwritev2");
    ssize_t written = real(fd, v, n, at, flags);
    if (written > 0) usleep(written * 1000000 / %d);
    return written;
}
ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off_t at, int flags) { return pwritev2(fd, v, n, at, flags); }
"""
TRAIN = r"""
import os, signal, sys, time
size = int(sys.argv[1])
def save(step):
    with open("new.ckpt", "wb", buffering=0) as f:
        for i in range(0, size, 1 << 20):
            f.write(bytes([step]) * (1 << 20))
    os.replace("new.ckpt", "last.ckpt")
def handler(*_):
    began = time.monotonic()
    save(2)
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, handler)
save(1)
with open("other.ckpt", "wb", buffering=0) as f: # is being drained when the signal comes
    f.write(bytes([3]) * size)
print("ready", flush=True)
time.sleep(100)
"""
if not shutil.which("gcc"):
    trial.skip("no gcc")
with open(f"{trial.TOP}/slow.c", "w", encoding="ascii") as f:
    f.write(SLOW % RATE)
subprocess.run(["gcc", "-shared", "-fPIC", "-o", f"{trial.TOP}/slow.so", f"{trial.TOP}/slow.c", "-ldl"], check=True)
agent = f"{trial.TOP}/agent"
with open(agent, "w", encoding="ascii") as f:
    f.write(f'#!/bin/sh\nLD_PRELOAD={trial.TOP}/slow.so exec {program.BUILD}/portus-agent "$@"\n')
os.chmod(agent, stat.S_IRWXU)


def content(path):
    """The step that stands there, whole; 0: none; -1: anything else."""
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as f:
        data = f.read()
    return data[0] if len(data) == SIZE and data == data[:1] * SIZE else -1


def ended(grace):
    """(the program's outcome, what the agent said) when it gets so many seconds."""
    d, log = trial.fresh(), os.path.join(trial.TOP, "log")
    if os.path.exists(log):
        os.unlink(log)
    env = program.environment(trial.JOB, "all", PORTUS_AGENT=agent, PORTUS_LOG=f"warn:{log}")
    p = program.start(["python3", "-c", TRAIN, str(SIZE)], d, env)
    trial.until_line(p, "ready")
    all_of_it = [p.pid, *agents.pids(trial.JOB)]
    trial.expect(len(all_of_it) == 3, f"program, keeper, worker: {all_of_it}")
    for pid in all_of_it:
        agents.kill_one(pid, signal.SIGTERM)
    end = time.monotonic() + grace
    agents.until(lambda: p.poll() is not None, grace)
    early = p.poll() is not None
    if not early:
        for pid in {p.pid, *agents.pids(trial.JOB)}:
            agents.kill_one(pid, signal.SIGKILL)
    out = program.finish(p, 20)
    agents.until(lambda: not agents.pids(trial.JOB), max(end - time.monotonic(), 1))
    agents.kill(trial.JOB)
    with open(log, encoding="utf-8") as f:
        said = f.read()
    step = content(f"{d}/last.ckpt")
    print(f"{grace} s: {'ended' if early else 'killed'}, last.ckpt is of step {step}; {said.strip()}", flush=True)
    return early, out, said, step


SIZE = 48 << 20
early, out, said, step = ended(60)
trial.expect(early and out.status == 143 and b"saved" in out.out, f"with time enough: {out.how()}: {said}", out)
trial.expect(step == 2, f"with time enough the handler's checkpoint is not there: {step}", out)
told = re.search(r"portus-agent: told to end: (\d+) MiB, about (\d+) s at (\d+) MiB/s, are not in their files yet", said)
trial.expect(told, f"the agent does not say what is left: {said}")
left, seconds, rate = map(int, told.groups())
trial.expect(20 <= left <= 160 and rate <= 21 and seconds >= left // 21 - 1, f"wrong sums: {told[0]}")

early, out, said, step = ended(2)
trial.expect(not early and step in (1, 2), f"killed: {early}, step {step}", out)
trial.expect(step == 2 or b"saved" not in out.out, "the handler's checkpoint was said to be there", out)
trial.expect("told to end" in said, f"nothing is said: {said}")

# At its end the program waits for what was captured last, and says so.
CODE = r"""
import os, sys, time
for name in "first.ckpt", "last.ckpt":
    with open(name, "wb", buffering=0) as f:
        for i in range(80):
            f.write(bytes(1 << 20))
    if name == "first.ckpt":
        os.rename(name, "old.ckpt") # waits
        time.sleep(1) # and now the ring is as large as a save
print(time.monotonic())
"""
d = trial.fresh()
out = program.run(["python3", "-c", CODE], d, program.environment(trial.JOB, "all", PORTUS_AGENT=agent), 60)
waited = time.monotonic() - float(out.out)
trial.expect(out.status == 0 and os.path.getsize(f"{d}/last.ckpt") == 80 << 20, out.how(), out)
trial.expect(waited > 2, f"the drain was not slow: {waited:.1f} s", out)
said = re.search(rb"portus: the program ends when (\d+) MiB, about (\d+) s at \d+ MiB/s, are in their files", out.err)
trial.expect(said or waited < 4, f"waited {waited:.1f} s and did not say so", out)
print(f"waited {waited:.1f} s: {said and said[0].decode()}")
