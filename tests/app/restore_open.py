# SPDX-License-Identifier: BSD-3-Clause
# PORTUS_RESTORE=auto: a file that was left short is completed when it is opened for reading.
# Right: the program reads the whole version, by whatever call it opens it, and one line says so; what is not
# certainly a beginning of its own version is left alone, with one line; whatever is missing, damaged, slow or
# not asked for, the program reads what is there.
# run: script needs=torch,numpy,safetensors timeout=300
import hashlib
import os
import shutil
import signal
import subprocess
import time

from lib import agents, program, trial

D = trial.fresh()
POOL = os.path.join(trial.fresh(), "pool")
BIN = trial.fresh()
CALLS = os.path.join(BIN, "calls")

SAVE = """
import numpy as np, os, sys, torch
from safetensors.torch import save_file
torch.manual_seed(int(sys.argv[1]))
w = torch.randn(1 << 20)
torch.save({"w": w}, "tmp.pt"); os.replace("tmp.pt", "last.pt")
torch.save(w, "place.pt")
np.save("a.npy", w.numpy())
save_file({"w": w}, "m.safetensors")
"""
LOAD = """
import numpy as np, torch
from safetensors.torch import load_file
print([float(t.sum()) for t in (torch.load("last.pt")["w"], torch.load("place.pt"), torch.load("last.pt", mmap=True)["w"],
       torch.from_numpy(np.load("a.npy")), torch.from_numpy(np.load("a.npy", mmap_mode="r").copy()),
       load_file("m.safetensors")["w"])])
"""
SIZE = "import os, sys; f = open(sys.argv[1], 'rb'); print(len(f.read()), f.fileno(), os.get_inheritable(f.fileno()))"
THREADS = """
import sys, threading
def look(): sizes.append(len(open(sys.argv[1], "rb").read()))
sizes = []
threads = [threading.Thread(target=look) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(set(sizes)))
"""
C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int size(int fd) { struct stat s; return fstat(fd, &s) ? -1 : (int)s.st_size; }
int main(int argc, char **argv)
{
    const char *way = argv[1], *path = argv[2];
    int fd = -1, status;
    FILE *f;
    if (!strcmp(way, "open")) fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!strcmp(way, "openat")) fd = openat(AT_FDCWD, path, O_RDONLY);
    if (!strcmp(way, "syscall")) fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    if (!strcmp(way, "fopen") && (f = fopen(path, "re"))) { char b[64]; fread(b, 1, 64, f); fd = fileno(f); }
    if (!strcmp(way, "freopen") && (f = freopen(path, "r", stdin))) fd = fileno(f);
    if (!strcmp(way, "fork")) {
        if (fork() == 0) { printf("%d\n", size(open(path, O_RDONLY))); fflush(stdout); _exit(0); }
        wait(&status); return 0;
    }
    if (!strcmp(way, "vfork")) { /* in the child nothing of ours may run; the parent's next open does it */
        if (vfork() == 0) { int child = open(path, O_RDONLY); _exit(size(child) == 5000 ? 1 : 0); }
        wait(&status); printf("%d ", WEXITSTATUS(status)); fd = open(path, O_RDONLY);
    }
    if (!strcmp(way, "path")) fd = open(path, O_PATH);
    if (!strcmp(way, "nonblock")) fd = open(path, O_RDONLY | O_NONBLOCK);
    if (!strcmp(way, "write")) fd = open(path, O_RDWR);
    printf("%d %d %d\n", size(fd), fd, fcntl(fd, F_GETFD));
    return 0;
}
"""


def env(mode="default", **more):
    return program.environment(trial.JOB, mode, **{"PORTUS_STORE": POOL, "PORTUS_SAMPLE": "0", "PORTUS_SUMMARY": "0",
                                                   "PORTUS_RESTORE": "auto", **more})


def run(code, *arguments, cwd=None, **more):
    argv = [program.python(), "-c", code, *arguments] if code else list(arguments)
    out = program.run(argv, cwd or D, env(**more), 60)
    trial.expect(out.status == 0, out.how(), out)
    return out


def ctl(*arguments):
    return subprocess.run([os.path.join(program.BUILD, "portusctl"), *arguments], env=env(None), capture_output=True,
                          text=True, check=False, timeout=60)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def look(path):
    status = os.stat(path)
    return digest(path), status.st_mode, status.st_mtime_ns


def cut(path, size, newer=False):
    """As a power cut leaves it: shorter, and not younger than the version."""
    status = os.stat(path)
    os.truncate(path, size)
    if not newer:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def punch(path, offset, length, newer=False):
    status = os.stat(path)
    subprocess.run(["fallocate", "-p", "-o", str(offset), "-l", str(length), path], check=True)
    if not newer:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def again(path):
    """The file as its newest version, of this very inode: saved anew."""
    number = len(ctl("versions", path).stdout.splitlines())
    run(f"open({path!r}, 'wb').write(b'PK\\3\\4' + bytes(range(256)) * 16000)")
    trial.expect(agents.until(lambda: len(ctl("versions", path).stdout.splitlines()) > number, 20, 0.1),
                 f"{path} is not kept")


def left_alone(path, word, **more):
    before = look(path)
    out = run(SIZE, path, **more)
    trial.expect(look(path) == before, f"{word}: {path} was changed", out)
    trial.expect(out.err.decode().count(word) == 1, f"not one line with {word!r}", out)
    trial.expect(out.out.split()[0] == str(os.path.getsize(path)).encode(), "another size was read", out)


with open(CALLS + ".c", "w", encoding="ascii") as f:
    f.write(C)
subprocess.run(["cc", "-w", "-o", CALLS, CALLS + ".c"], check=True)
trial.expect(ctl("pool", "create", POOL, "256M").returncode == 0, "no pool")
try:
    run(SAVE, "1")
    FILES = [os.path.join(D, n) for n in ("last.pt", "place.pt", "a.npy", "m.safetensors")]
    for path in FILES:
        trial.expect(agents.until(lambda p=path: ctl("versions", p).returncode == 0, 20, 0.1), f"{path} is not kept")
    whole = {path: look(path) for path in FILES}
    sizes = {path: os.path.getsize(path) for path in FILES}
    loaded = run(LOAD).out
    plain = run(LOAD, mode=None)
    trial.expect(loaded == plain.out, "it loads something else", plain)

    # After a power cut all of them are completed, one empty, one a byte short, and each load is as before.
    for n, path in enumerate(FILES):
        cut(path, (1000000, 0, os.path.getsize(path) - 1, 17)[n])
    listed = ctl("complete", "--list").stdout.split("\0")
    trial.expect(sorted(listed) == sorted([f"{sizes[p]} {p}" for p in FILES] + ["", ""]), f"listed: {listed}")
    out = run(LOAD)
    trial.expect(out.out == loaded, "loaded something else", out)
    trial.expect(out.err.decode().count("completed from commit") == 4, "not four lines", out)
    trial.expect({path: look(path) for path in FILES} == whole, "completed to something else")
    trial.expect(not run(LOAD).err, "a word about whole files")
    trial.expect(ctl("complete", "--list").stdout == "\0", "still listed")

    # Without the switch, without the shim, with the shim switched off, or excluded: what is there.
    path = os.path.join(D, "x.pt")
    again(path)
    good = look(path)
    cut(path, 5000)
    for more in ({"PORTUS_RESTORE": "off"}, {"PORTUS": "off"}, {"mode": None}, {"PORTUS_EXCLUDE": "x.*"}):
        out = run(SIZE, path, **more)
        trial.expect(out.out.startswith(b"5000 ") and not out.err, f"{more}: not as it is", out)
    number = out.out.split()[1:]
    left_alone(path, "report leaves it alone", PORTUS="report")

    # By every call, with the same number and flags; a file is completed by the first opener that waits.
    for way in ("open", "openat", "syscall", "fopen", "freopen", "fork", "vfork"):
        again(path)
        good = look(path)
        cut(path, 5000)
        out = run(None, CALLS, way, path)
        plain = run(None, CALLS, way, path, mode=None).out
        trial.expect(out.out == (b"1" + plain[1:] if way == "vfork" else plain), f"{way}: {out.out}, plainly {plain}", out)
        trial.expect(look(path) == good, f"{way}: not completed", out)
    again(path)
    cut(path, 5000)
    for way in ("path", "nonblock", "write"):
        trial.expect(run(None, CALLS, way, path).out.startswith(b"5000 "), f"{way}: completed")
    out = run(SIZE, path)
    trial.expect(out.out.split()[1:] == number, "another number or flag", out)

    # Threads and processes that open it at once: each has it whole, and it is completed once.
    again(path)
    size = os.path.getsize(path)
    cut(path, 100)
    out = run(THREADS, path)
    trial.expect(out.out == b"[%d]\n" % size and out.err.count(b"completed") == 1, "not once for all threads", out)
    again(path)
    cut(path, 100)
    crowd = [program.start([program.python(), "-c", SIZE, path], D, env()) for _ in range(6)]
    ends = [program.finish(p, 60) for p in crowd]
    trial.expect(all(e.out.split()[0] == b"%d" % size for e in ends), f"not all: {[e.out for e in ends]}", ends[0])
    trial.expect(sum(e.err.count(b"completed") for e in ends) == 1, f"not once: {[e.err for e in ends]}")
    trial.expect(sum(e.err.count(b"\n") for e in ends) == 1, f"other lines: {[e.err for e in ends]}")

    # What is not certain: other bytes, changed since, emptied by a later save, another file, two names, a writer.
    again(path)
    with open(path, "r+b") as f:
        stamp = os.stat(path).st_mtime_ns
        f.write(b"PK\3\4changed")
    cut(path, 5000)
    os.utime(path, ns=(stamp, stamp))
    left_alone(path, "not the beginning")
    again(path)
    cut(path, 5000, newer=True)
    out = run(SIZE, path)
    trial.expect(out.out.startswith(b"5000 ") and not out.err, "a newer file is its own", out)
    again(path)
    cut(path, 0, newer=True)
    left_alone(path, "was emptied after that")
    again(path)
    cut(path, 5000)
    shutil.copy2(path, path + ".other")
    os.rename(path + ".other", path)
    left_alone(path, "another file")
    os.unlink(path)
    again(path)
    cut(path, 5000)
    os.link(path, path + "2")
    left_alone(path, "several names")
    os.unlink(path + "2")
    with open(path, "r+b"):
        left_alone(path, "being written")
    locked = subprocess.Popen(["flock", path, "sleep", "2"])
    time.sleep(0.5)
    out = run(SIZE, path)
    trial.expect(out.out.startswith(b"%d " % size), "not completed after a lock", out)
    locked.wait()

    # Renamed, and the pool was not told of it, as right before a power cut: the file itself tells.
    for number, command in enumerate(("complete", "restore")):
        again(path)
        good = look(path)
        cut(path, 5000)
        moved = os.path.join(D, f"moved{number}", "z.pt")
        os.mkdir(os.path.dirname(moved))
        os.rename(path, moved)
        done = ctl(command, moved if command == "restore" else D)
        trial.expect("completed" in done.stdout and look(moved) == good, f"{command}: not found: {done}")

    # As large as it was, with blocks that were never written, as a power cut leaves what had its size first: completed. Not what was
    # changed after that, or in another way; nor is a file that always had holes.
    again(path)
    good = look(path)
    punch(path, 1 << 20, 1 << 20)
    trial.expect(look(path)[0] != good[0] and os.path.getsize(path) == size, "there is no hole")
    done = ctl("complete", D)
    trial.expect("completed" in done.stdout and look(path) == good, f"not filled: {done}")
    punch(path, 0, size + 4095)  # nothing of it had come
    trial.expect("completed" in ctl("restore", path).stdout and look(path) == good, "not filled by restore")
    punch(path, 0, 4096, newer=True)
    before = look(path)
    done = ctl("complete", D)
    trial.expect(done.returncode == 0 and not done.stdout and look(path) == before, f"a newer file is its own: {done}")
    again(path)
    punch(path, 1 << 20, 1 << 20)
    stamp = os.stat(path).st_mtime_ns
    with open(path, "r+b") as f:
        f.write(b"PK\3\4changed")
    os.utime(path, ns=(stamp, stamp))
    done = ctl("complete", D)
    trial.expect(done.returncode != 0 and "not the beginning" in done.stderr, f"filled what was changed: {done}")
    sparse = os.path.join(D, "sparse.pt")
    run(f"f = open({sparse!r}, 'wb'); f.write(b'PK' * (1 << 20)); f.truncate(8 << 20); f.close()")
    trial.expect(agents.until(lambda: ctl("versions", sparse).returncode == 0, 20, 0.1), "sparse.pt is not kept")
    good = look(sparse)
    done = ctl("complete", sparse)
    trial.expect(done.returncode == 0 and not done.stdout and look(sparse) == good, f"it had holes: {done}")

    # By hand, a directory; what is right is not mentioned.
    again(path)
    cut(path, 5000)
    done = ctl("complete", D)
    trial.expect(done.returncode == 0 and done.stdout.count("\n") == 1 and "completed" in done.stdout, str(done))
    trial.expect(ctl("complete", D).stdout == "", "completed twice")

    # portusctl is missing, slow, or says nonsense: one line, and what is there, soon.
    again(path)
    cut(path, 5000)
    os.symlink(os.path.join(program.BUILD, "portus-agent"), os.path.join(BIN, "portus-agent"))
    fake = os.path.join(BIN, "portusctl")
    agent = {"PORTUS_AGENT": os.path.join(BIN, "portus-agent")}
    left_alone(path, "no portusctl", **agent)
    for text, word in (("exec sleep 6", "takes too long"), ("printf 'no\\0\\0'", "says why"),
                       ("printf '12 /x'", "says why"), ("exec yes /", "says why"), ("exit 1", "says why")):
        with open(fake, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(fake, 0o755)
        left_alone(path, word, **agent)
    with open(fake, "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\necho $$ >>{BIN}/calls.log\nexec {program.BUILD}/portusctl \"$@\"\n")
    run(SIZE, path, PORTUS_RESTORE="off", **agent)
    trial.expect(not os.path.exists(f"{BIN}/calls.log"), "portusctl is run without the switch")
    run(LOAD, **agent)
    run(SIZE, path, **agent)
    with open(f"{BIN}/calls.log", encoding="ascii") as f:
        trial.expect(len(f.readlines()) == 3, "not one list a program, and one completion")

    # No pool, a damaged version, a damaged pool.
    again(path)
    cut(path, 5000)
    left_alone(path, "says why", PORTUS_STORE=POOL + ".not")
    left_alone(path, "needs PORTUS_STORE", PORTUS_STORE="")
    agents.kill(trial.JOB)
    for pid in agents.stores(POOL):
        os.kill(pid, signal.SIGKILL)
    with open(POOL, "r+b") as f:
        data = f.read()
        pattern = b"PK\3\4" + bytes(range(256)) * 30
        at = data.find(pattern)
        while at >= 0:
            f.seek(at + 6000)
            f.write(b"damage")
            at = data.find(pattern, at + 1)
    left_alone(path, "in the pool are damaged")
    with open(POOL, "r+b") as f:
        f.write(bytes(8 << 20))
    left_alone(path, "says why")
finally:
    trial.end_stores(POOL)
left = [name for name in os.listdir(D) if ".portus-" in name]
trial.expect(not left, f"of it is left: {left}")
