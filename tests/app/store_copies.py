# SPDX-License-Identifier: BSD-3-Clause
# portusctl export and import: what a pool holds as plain files, as tar, and back.
# Right: byte for byte, with mode and times; versions, jobs, pins and whole sets with --all; nothing
# that is damaged or cut short gets a name; nobody writes outside of where he was told to.
# run: script timeout=180
import io
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import tarfile

from lib import agents, program, state, trial

CTL = os.path.join(program.BUILD, "portusctl")
SIZES = {"ck/a.ckpt": 3_000_000, "ck/b\udcff.ckpt": 0, "ck/sub/c \u00e9\n.ckpt": 1, "last.ckpt": 1_234_567}


def ctl(*arguments, status=0, pool=None, data=None, binary=False):
    env = program.environment(trial.JOB, PORTUS_STORE=pool or POOL)
    done = subprocess.run([CTL, *arguments], env=env, capture_output=True, input=data, timeout=60, check=False)
    trial.expect(done.returncode == status, f"portusctl {' '.join(arguments)}: exit status {done.returncode}, "
                 f"not {status}: {done.stdout[-2000:]}{done.stderr}")
    return done.stdout if binary else (done.stdout + done.stderr).decode()


def look(top):
    """What plain files are below top."""
    found = {}
    for name, entry in state.snapshot(top).items():
        path = os.path.join(top, name)
        if os.path.isfile(path):
            with open(path, "rb") as f:
                status = os.stat(path)
                found[name] = (f.read(), status.st_mode, status.st_mtime_ns)
    return found


def versions(pool=None, *paths):
    return json.loads(ctl("versions", "--json", *(paths or ["/"]), pool=pool))["versions"]


def fill(step):
    chance = random.Random(step)
    for i, (name, size) in enumerate(SIZES.items()):
        path = os.path.join(D, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(chance.randbytes(size))
        os.chmod(path, (0o640, 0o600, 0o444, 0o755)[i])
        os.utime(path, ns=(1, 10**18 + step * 10**9 + i + 1))


def new_pool(size="64M"):
    path = os.path.join(trial.fresh(), "pool")
    ctl("pool", "create", path, size, pool=path)
    return path


D = trial.fresh()
POOL = new_pool()

# A directory becomes versions, by the paths that follow it; once.
fill(1)
trial.expect("4 versions imported, 0 were there" in ctl("import", D), "import")
trial.expect("0 versions imported, 4 were there" in ctl("import", D + "///"), "imported twice")
first = look(D)
fill(2)
trial.expect("4 versions imported" in ctl("import", D), "import of the next state")
second = look(D)
trial.expect(len(versions()) == 8 and "0 damaged" in ctl("verify"), "other versions")

# export: the newest of each, plain; it goes on where it was, and leaves alone what is not its own.
out = trial.fresh()
ctl("export", "--to", out)
trial.expect(look(out) == second, "the copies differ")
os.truncate(os.path.join(out, "ck/a.ckpt"), 1000)
os.unlink(os.path.join(out, "last.ckpt"))
said = ctl("export", "--to", out)
trial.expect(said.count("is whole") == 2 and "completed" in said and look(out) == second, f"begun again: {said}")
with open(os.path.join(out, "last.ckpt"), "ab") as f:
    f.write(b"mine")
ctl("export", "--to", out, status=1)
with open(os.path.join(out, "last.ckpt"), "rb") as f:
    trial.expect(f.read().endswith(b"mine"), "replaced")
some = trial.fresh()
ctl("export", "--to", some, "/ck/sub", "/last.ckpt")
trial.expect(set(look(some)) == {"ck/sub/c \u00e9\n.ckpt", "last.ckpt"}, "other paths")
trial.expect("no version" in ctl("export", "--to", some, "/none", status=1), "what is not there")

# tar: the same, for everybody's tar.
tar = ctl("export", "--tar", binary=True)
out = trial.fresh()
subprocess.run(["tar", "-xpf", "-"], cwd=out, input=tar, check=True)
trial.expect(look(out) == second, "tar has other files")
ctl("export", "--tar", "--to", out, status=2)
ctl("export", status=2)

# All versions, out of one pool and into another, by tar and by a directory: the sets are there again.
ctl("pin", "/last.ckpt")
every = trial.fresh()
ctl("export", "--all", "--to", every)
trial.expect(len(look(every)) == 8, "not all versions")
copies = ctl("export", "--all", "--tar", binary=True)


def told(pool):
    return [(v["path"], v["size"], v["mtime_ns"], v["mode"], v["settled"], v["pinned"], v["job"]) for v in versions(pool)]


told_all = told(POOL)
for way in ("tar", "directory"):
    other = new_pool()
    if way == "tar":
        ctl("import", "--all", "--tar", pool=other, data=copies)
    else:
        ctl("import", "--all", every, pool=other)
    trial.expect(told(other) == told_all, f"{way}: {told(other)}, not {told_all}")
    back = trial.fresh()
    ctl("restore", "/ck", "/last.ckpt", "--to", back, pool=other)
    trial.expect(look(back) == second, f"{way}: another state comes back")
    number = max(v["commit"] for v in versions(other) if v["mtime_ns"] < 10**18 + 2 * 10**9)
    back = trial.fresh()
    ctl("restore", "/ck", "/last.ckpt", "--version", str(number), "--to", back, pool=other)
    trial.expect(look(back) == first, f"{way}: the first state is another")

# A compressed tar of somebody else's, with all that is no file; names that lead out are refused.
made = trial.fresh()
with tarfile.open(os.path.join(made, "t.tar.gz"), "w:gz", format=tarfile.GNU_FORMAT) as t:
    def member(name, data=b"x", **more):
        info = tarfile.TarInfo(name)
        info.size, info.mtime = len(data), 5
        for key, value in more.items():
            setattr(info, key, value)
        t.addfile(info, io.BytesIO(data))
    member("./x/one", b"1" * 100_000)
    member("/x/two", b"2")
    member("x/link", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    member("x/hard", b"", type=tarfile.LNKTYPE, linkname="x/one")
    member("x/fifo", b"", type=tarfile.FIFOTYPE)
    member("x/../../../tmp/out", b"bad")
    member("x/..", b"bad")
    member("y//z", b"bad")
with open(os.path.join(made, "t.tar.gz"), "rb") as f:
    data = f.read()
other = new_pool()
said = ctl("import", "--tar", pool=other, data=data, status=1)
trial.expect("2 versions imported" in said and said.count("Invalid argument") == 3, f"it says: {said}")
trial.expect([v["path"] for v in versions(other)] == ["/x/one", "/x/two"], f"imported: {versions(other)}")

# Cut anywhere, or no tar: no half a file, one line, exit status 1.
for cut in (700, 512 * 7, 2_000_000, len(tar) - 300_000):
    other = new_pool()
    said = ctl("import", "--tar", pool=other, data=tar[:cut], status=1)
    trial.expect("runcated" in said or "tar" in said, f"cut at {cut}: {said}")
    for v in json.loads(ctl("ls", "--json", pool=other))["versions"]:
        trial.expect(v["size"] == SIZES[v["path"][1:].replace("\ufffd", "\udcff")], f"cut at {cut}: half of {v['path']}")
said = ctl("import", "--tar", pool=new_pool(), data=b"no tar at all" * 1000, status=1)
trial.expect("no whole tar" in said, said)
chance = random.Random(7)
for i in range(40):  # and damaged ones: never a crash, and nothing else than some of it
    other, bad = new_pool("8M"), bytearray(tar)
    for _ in range(chance.randrange(1, 20)):
        at = chance.choice([chance.randrange(len(bad)), chance.randrange(2048)])
        bad[at:at + 8] = chance.randbytes(8)
    env = program.environment(trial.JOB, PORTUS_STORE=other)
    done = subprocess.run([CTL, "import", "--tar"], env=env, capture_output=True, input=bytes(bad), timeout=60, check=False)
    trial.expect(done.returncode in (0, 1) and (done.returncode == 0 or done.stderr), f"{i}: {done}")
    trial.expect("0 damaged" in ctl("verify", pool=other), f"{i}: damaged")
    os.unlink(other)

small, other = ctl("export", "--all", "--tar", "/ck/sub", binary=True), new_pool("8M")
env = program.environment(trial.JOB, PORTUS_STORE=other)
for i in range(1000):
    bad = bytearray(small)
    for _ in range(chance.randrange(1, 6)):
        at, length = chance.randrange(len(bad)), chance.randrange(1, 9)
        bad[at:at + length] = chance.randbytes(length)
    done = subprocess.run([CTL, "import", "--tar", *(["--all"] if i % 2 else [])], env=env, capture_output=True,
                          input=bytes(bad), timeout=60, check=False)
    trial.expect(done.returncode in (0, 1) and (done.returncode == 0 or done.stderr), f"{i}: {done}")
trial.expect("0 damaged" in ctl("verify", pool=other) and len(versions(other)) > 2, "damaged tars")

# No room: one line, what was imported before stays.
other = new_pool("8M")
with open(os.path.join(D, "ck/big"), "wb") as f:
    f.write(bytes(20 << 20))
said = ctl("import", D, pool=other, status=1)
trial.expect("no room" in said and "0 damaged" in ctl("verify", pool=other), f"it says: {said}")
trial.expect("/ck/big" not in [v["path"] for v in versions(other)], "half of it")
ctl("import", os.path.join(D, "none"), status=1)
ctl("import", os.path.join(D, "last.ckpt"), status=1)
ctl("import", status=2)

# A damaged version: not in the copies, neither as a file nor in the stream; all else is.
with open(POOL, "r+b") as f:
    pool = f.read()
    at = pool.index(second["last.ckpt"][0][:4096])
    f.seek(at + 500_000)
    f.write(b"damage")
out = trial.fresh()
trial.expect("damaged" in ctl("export", "--to", out, status=1), "nobody says it")
trial.expect(look(out) == {k: v for k, v in second.items() if k != "last.ckpt"}, "copies beside a damaged one")
trial.expect(not [n for n in os.listdir(out) if "portus" in n], "something is left")
with tarfile.open(fileobj=io.BytesIO(ctl("export", "--tar", binary=True, status=1))) as t:
    trial.expect(sorted(t.getnames()) == sorted(set(second) - {"last.ckpt"}), f"in the tar: {t.getnames()}")

# Killed at any time: what has a name is whole, and it is completed when it is begun again.
out = trial.fresh()
for i in range(12):
    p = subprocess.Popen([CTL, "export", "--all", "--to", out, "/ck"], env=program.environment(trial.JOB, PORTUS_STORE=POOL),
                         stdout=subprocess.DEVNULL)
    try:
        p.wait(chance.random() * 0.03)
    except subprocess.TimeoutExpired:
        p.send_signal(signal.SIGKILL)
        p.wait()
    for name, (data, *_) in look(out).items():
        if ".portus-" not in name:
            trial.expect(data in (first[name.split("@")[0]][0], second[name.split("@")[0]][0]), f"{name} is not whole")
ctl("export", "--all", "--to", out, "/ck")
trial.expect(len([n for n in look(out) if ".portus-" not in n]) == 6, "not completed")

# On a terminal there is a bar.
for arguments in (["verify"], ["export", "--tar"], ["export", "--to", trial.fresh()], ["scrub"],
                  ["import", os.path.join(D, "ck/sub")], ["diff", "/ck/a.ckpt", *(str(v["commit"]) for v in versions(None, "/ck/a.ckpt"))]):
    ours, theirs = pty.openpty()
    p = subprocess.Popen([CTL, *arguments], env=program.environment(trial.JOB, PORTUS_STORE=POOL), stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    p.communicate(timeout=60)
    said = os.read(ours, 65536)
    os.close(ours)
    trial.expect(b" %  " in said and b"/s" in said, f"{arguments}: no bar: {said}")

# A portusd that serves the pool takes them itself: the same versions, sets, pins and jobs, once; what has no room leaves nothing.
for way in ("tar", "directory"):
    other = new_pool()
    p = subprocess.Popen([os.path.join(program.BUILD, "portusd"), other], stderr=subprocess.PIPE,
                         env=program.environment(trial.JOB, PORTUS_LOG="info"))
    try:
        trial.expect(any(b" bytes free" in line for line in p.stderr), "portusd did not begin")
        for said in ("8 versions imported, 0 were there", "0 versions imported, 8 were there"):
            if way == "tar":
                trial.expect(said in ctl("import", "--all", "--tar", pool=other, data=copies), said)
            else:
                trial.expect(said in ctl("import", "--all", every, pool=other), said)
        trial.expect(told(other) == told_all, f"{way}, served: {told(other)}, not {told_all}")
        back = trial.fresh()
        ctl("export", "--to", back, pool=other)
        trial.expect(look(back) == second, "served: other copies")
        fill(2)
        with open(os.path.join(D, "ck/big"), "wb") as f:
            f.write(os.urandom(80 << 20))
        said = ctl("import", D, pool=other, status=1)
        trial.expect("no room" in said and "0 damaged" in ctl("verify", pool=other), f"served: it says: {said}")
        trial.expect("/ck/big" not in [v["path"] for v in versions(other)], "served: half of it")
        os.truncate(os.path.join(D, "ck/big"), 40 << 20)
        trial.expect("1 versions imported" in ctl("import", D, pool=other), "served: what was half there takes room")

        # Killed in the middle, either side: nothing is there by half, and it can be begun again.
        os.unlink(os.path.join(D, "ck/big"))
        fill(3)
        another = subprocess.run(["tar", "-c", "-C", D, "ck", "last.ckpt"], capture_output=True, check=True).stdout
        feed = subprocess.Popen([CTL, "import", "--tar"], env=program.environment(trial.JOB, PORTUS_STORE=other), stdin=subprocess.PIPE)
        feed.stdin.write(another[:len(another) - 1_000_000])
        feed.stdin.flush()
        feed.kill()
        feed.wait()
        before, fds = versions(other), len(os.listdir(f"/proc/{p.pid}/fd"))
        feed = subprocess.Popen([CTL, "import", "--tar"], env=program.environment(trial.JOB, PORTUS_STORE=other), stdin=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        feed.stdin.write(another[:2_000_000])
        feed.stdin.flush()
        trial.expect(agents.until(lambda: len(os.listdir(f"/proc/{p.pid}/fd")) > fds, 5), "it does not come")
        p.kill()
        p.wait()
        said = feed.communicate(another[2_000_000:])[1].decode()
        trial.expect(feed.returncode == 1 and "begin again" in said, f"portusd is killed: {feed.returncode}, {said}")
    finally:
        p.kill()
        p.wait()
    trial.expect("0 damaged" in ctl("verify", pool=other) and len(versions(other)) >= len(before), "after kills")
shutil.rmtree(every)
