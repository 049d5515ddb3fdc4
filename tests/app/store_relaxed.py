# SPDX-License-Identifier: BSD-3-Clause
# PORTUS_ORDER=relaxed with a store, over a slow disk (an agent each of whose writes takes a while): a rename
# waits until the store has committed what was saved, not until it is in its file. Then all is killed.
# Right: the rename comes before the drain ends; what stands is short; portusctl complete makes it whole, byte
# for byte, and restore does; so if the program sets the size first: then it stands with all of its size and without its bytes, and a
# program that opens it with PORTUS_RESTORE=auto gets it whole; so if somebody has renamed it into another directory. One that was drained, and cut by somebody after that, is left alone. A file of which the log does not hold all is waited for until it is drained.
# run: script timeout=180
import os
import signal
import subprocess
import sys

from lib import agents, far, program, stores, trial, versions

CTL = os.path.join(program.BUILD, "portusctl")
SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t pwritev64v2(int fd, const struct iovec *vector, int count, long offset, int flags)
{
    static ssize_t (*real)(int, const struct iovec *, int, long, int);
    if (!real) real = dlsym(RTLD_NEXT, "pwritev64v2");
    usleep(300000);
    return real(fd, vector, count, offset, flags);
}
ssize_t pwritev2(int fd, const struct iovec *vector, int count, long offset, int flags)
{
    return pwritev64v2(fd, vector, count, offset, flags);
}
"""
SAVE = """
import os, sys, time
block = os.urandom(1 << 20)
def save(name, stdio=False, sized=False):
    with open(name, "wb") as f:
        if sized: f.truncate((8 << 20) + 39)
        f.write(b"a header, written before it is captured")
        f.flush()
        for i in range(8):
            f.write(block[i:] + block[:i])
        if stdio: os.ftruncate(f.fileno(), (8 << 20) + 100)
for i in range(2):
    save("warm"); time.sleep(3)
with open("expected", "wb") as f:
    f.write(b"a header, written before it is captured")
    for i in range(8): f.write(block[i:] + block[:i])
save("tmp", sys.argv[1] == "cut", sys.argv[1] == "sized")
begin = time.monotonic()
os.rename("tmp", "final")
print(time.monotonic() - begin, flush=True)
time.sleep(60)
"""


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def one(how, away=None):
    directory = trial.fresh()
    pool, job = away.pool if away else os.path.join(directory, "pool"), f"{trial.JOB}-{how}{'-' + away.name[:4] if away else ''}"
    if not away:
        done = subprocess.run([CTL, "pool", "create", pool, "1G"], capture_output=True, text=True, check=False)
        trial.expect(done.returncode == 0, done.stderr)
    store = {"PORTUS_STORE": away.name if away else pool}
    if isinstance(away, far.Store):
        store["PORTUS_KEY"] = away.key("alice")
    env = program.environment(job, "default", **store, PORTUS_ORDER="relaxed", PORTUS_SAMPLE="0",
                              PORTUS_AGENT=AGENT, PORTUS_MATCH="*", PORTUS_EXCLUDE="*expected", PORTUS_LOG=f"debug:{directory}/log")
    process = program.start([sys.executable, "-c", SAVE, how], directory, env)
    line = process.stdout.readline()
    if how in ("whole", "sized", "renamed"):
        known = agents.until(lambda: any(v["path"] == f"{directory}/final" for v in versions.newest(pool)), 10, 0.05)
        trial.expect(known, "the store does not hear of the new name")
    if how == "drained":
        final = os.path.join(directory, "final")
        trial.expect(agents.until(lambda: os.path.getsize(final) > 8 << 20 and final not in agents.held(job, directory),
                                   30, 0.1),
                     "it is not drained")
    for pid in [process.pid, *agents.pids(job), *agents.stores(pool)]:
        os.kill(pid, signal.SIGKILL)
    out = program.finish(process, 30)
    trial.expect(line, f"{how}: it ended before", out)
    final, expected = os.path.join(directory, "final"), contents(os.path.join(directory, "expected"))
    if how == "drained":
        trial.expect(contents(final) == expected, "drained: other bytes")
        os.truncate(final, 5 << 20)
        subprocess.run([CTL, "complete", "--store", pool, final], capture_output=True, check=False)
        trial.expect(contents(final) == expected[:5 << 20], "what somebody has cut is completed")
        return
    stands = contents(final)
    print(f"{how}: the rename took {float(line):.3f} s, {len(stands)} of {len(expected)} bytes stand")
    if how == "cut":
        trial.expect(stands == expected + bytes(len(stands) - len(expected)), "cut: not drained before the rename")
        return
    if how == "sized":
        bare = stands.rstrip(b"\0")
        trial.expect(len(stands) == len(expected) and len(bare) < len(expected) and expected.startswith(bare),
                     "sized: the rename waited for the drain", out)
    else:
        trial.expect(len(stands) < len(expected) and expected.startswith(stands), "the rename waited for the drain", out)
    if away:  # it was killed, too
        away.process.wait()
        away.start()
    if how in ("sized", "renamed"):
        name = "elsewhere/other" if how == "renamed" else "final"
        if how == "renamed":
            os.mkdir(os.path.join(directory, "elsewhere"))
            os.rename(final, os.path.join(directory, name))
        back = program.run([sys.executable, "-c", f"print(open('{name}', 'rb').read() == open('expected', 'rb').read())"], directory,
                           program.environment(job + "-auto", "default", **store, PORTUS_MATCH="*", PORTUS_RESTORE="auto"), 60)
        trial.expect(back.out == b"True\n" and back.err.count(b"completed from") == 1, f"{how}: not completed when it is opened", back)
        with open(final, "wb") as f:
            f.write(stands)
    for command in ("complete", "restore")[how in ("sized", "renamed"):]:
        done = subprocess.run([CTL, command, "--store", store["PORTUS_STORE"], final], capture_output=True, text=True,
                              env={**os.environ, **store}, check=False)
        trial.expect(done.returncode == 0 and contents(final) == expected, f"{command}: {done.stdout}{done.stderr}")
        with open(final, "wb") as f:
            f.write(stands)


library = os.path.join(trial.TOP, "slow.so")
subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=SLOW, text=True, check=True)
AGENT = os.path.join(trial.TOP, "agent")
with open(AGENT, "w", encoding="ascii") as f:
    f.write(f'#!/bin/sh\nLD_PRELOAD={library} exec {program.BUILD}/portus-agent "$@"\n')
os.chmod(AGENT, 0o755)
one("whole")
one("drained")
one("cut")
one("sized")
one("renamed")
for kind in [far.Store] + [stores.Store] * (os.geteuid() == 0):  # another machine's, and one for all users
    elsewhere = kind(size="1G")
    try:
        one("whole", elsewhere)
    finally:
        elsewhere.end()
