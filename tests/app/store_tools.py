# SPDX-License-Identifier: BSD-3-Clause
# What portusctl does to a pool beside restoring: scrub, diff, check, resize, ls, verify.
# Right: each finds what was done to the pool, by itself and through the portusd that serves it.
# run: script timeout=180
import json
import os
import random
import subprocess
import time

from lib import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
SAVE = """
import os, random, sys
for name, *spots in (word.split(":") for word in sys.argv[1:]):
    data = bytearray(random.Random(name).randbytes(5020000))
    for spot in spots: data[int(spot)] ^= 255
    with open(name, "wb", buffering=0) as f: f.write(data)
"""
SIZE = 5020000


def ctl(*arguments, status=0, **more):
    env = program.environment(trial.JOB, PORTUS_STORE=POOL, **more)
    done = subprocess.run([CTL, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == status, f"portusctl {' '.join(arguments)}: exit status {done.returncode}, "
                 f"not {status}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def ctl_any(*arguments):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=60, check=False).stderr


def versions(*paths):
    # A writer that was killed between two copies of something leaves a line to be said.
    said = subprocess.run([CTL, "versions", "--store", POOL, "--json", *paths], stdout=subprocess.PIPE, timeout=60, check=True).stdout
    return json.loads(said)["versions"]


def save(*words):
    """Saves files, and waits until they are in the pool."""
    paths = [os.path.join(D, word.split(":")[0]) for word in words]
    env = program.environment(trial.JOB, "all", PORTUS_STORE=POOL, PORTUS_SCRUB="0")
    out = program.run([program.python() if os.path.exists(program.python()) else "python3", "-c", SAVE, *words], D, env)
    trial.expect(out.status == 0, out.how(), out)

    def kept():
        found = json.loads(ctl("ls", "--json"))["versions"]
        newest = {v["path"]: v["mtime_ns"] for v in found}
        return all(newest.get(path) == os.stat(path).st_mtime_ns for path in paths)
    trial.expect(agents.until(kept, 20, 0.1), f"{paths} are not in the pool")


def ended():
    trial.end_stores(POOL)


def flip(what):
    """One byte of the pool file, where `what` stands for the only time after its start."""
    with open(POOL, "r+b") as f:
        data = f.read()
        at = data.index(what)
        f.seek(at)
        f.write(bytes([data[at] ^ 255]))
        return at


def start(*options):
    path = os.path.join(program.BUILD, "portusd")
    env = program.environment(trial.JOB, PORTUS_LOG="info")
    p = subprocess.Popen([path, *options, POOL], env=env, stderr=subprocess.PIPE, text=True)
    trial.expect(agents.until(lambda: agents.stores(POOL), 5), "no portusd")
    return p


D = trial.fresh()
POOL = os.path.join(trial.fresh(), "pool")
A, B = os.path.join(D, "a.ckpt"), os.path.join(D, "b.ckpt")
ctl("pool", "create", POOL, "128M")
try:
    # diff: ranges, exactly; near ones are one; what is longer is one more.
    save("a.ckpt")
    save("a.ckpt:0:5:1000:1000000:2097151:2097152:5019999")
    first, second = (v["commit"] for v in versions(A))
    trial.expect(ctl("diff", A, str(first), str(second), status=1).splitlines()[:-1] ==
                 ["0-6", "1000-1001", "1000000-1000001", "2097151-2097153", "5019999-5020000"], "other ranges")
    found = json.loads(ctl("diff", "--json", A, str(second), str(first), status=1))["differ"]
    trial.expect([(r["begin"], r["end"]) for r in found][3] == (2097151, 2097153), f"other ranges: {found}")
    trial.expect(ctl("diff", A, str(first), str(first)) == "", "differs from itself")
    trial.expect("no version" in ctl("diff", A, "1", "99", status=2), "a version that is none")
    ctl("diff", A, str(first), status=2)
    ctl("diff", A, str(first), "x", status=2)

    # ls: how many there are, and what they take.
    save("b.ckpt")
    found = {v["path"]: v for v in json.loads(ctl("ls", "--json"))["versions"]}
    trial.expect([found[p]["versions"] for p in (A, B)] == [2, 1], f"other counts: {found}")
    trial.expect(found[A]["stored_all"] > 2 * SIZE > found[A]["stored"] > SIZE, f"other sizes: {found[A]}")
    trial.expect(found[A]["mode"] == os.stat(A).st_mode & 0o7777 and not found[A]["damaged"], "other attributes")
    lines = ctl("ls", "-l").splitlines()
    trial.expect(lines[0].split()[4] == "versions" and lines[1].split()[5] == "2", f"ls -l: {lines}")
    trial.expect("no version" in ctl("verify", os.path.join(D, "none"), status=1), "verifies what is not there")
    trial.expect("2 versions are good" in ctl("verify", A), "verify PATH")

    # Scrub while portusd serves: bytes of a file that is still there come back from it.
    trial.expect(agents.stores(POOL), "no portusd runs")
    trial.expect("0 copies written anew, 0 versions repaired, 0 damaged" in ctl("scrub"), "finds what is right")
    with open(B, "rb") as f:
        data = f.read()
    with open(POOL, "rb") as f:
        pool = f.read()
    newest = pool.rindex(data[:65536])  # of b, which was saved last
    with open(POOL, "r+b") as f:
        f.seek(newest + 70000)
        f.write(b"damage")
    trial.expect("1 damaged" in ctl("verify", status=1), "the damage is not seen")
    trial.expect("1 versions repaired, 0 damaged" in ctl("scrub"), "not repaired from the file")
    trial.expect("0 damaged" in ctl("verify"), "not repaired")

    # Of an older version there is no file: marked, and nothing else; until it is removed.
    where = pool.index(random.Random("a.ckpt").randbytes(65536))
    with open(POOL, "r+b") as f:
        f.seek(where + 300000)
        f.write(b"damage")
    os.utime(B)  # nor is b what it was
    with open(POOL, "r+b") as f:
        f.seek(newest + 70000)
        f.write(b"damage")
    trial.expect("0 versions repaired, 2 damaged" in ctl("scrub", "--pace", "1G", status=1), "not found")
    trial.expect([v["damaged"] for v in versions(A, B)] == [True, False, True], f"other marks: {versions(A, B)}")
    trial.expect(ctl("versions", A).splitlines()[1].split()[1].endswith("d"), "not shown")
    ctl("scrub", "--background")
    trial.expect(agents.until(lambda: "2 damaged" in ctl("verify", status=1), 5), "verify")
    ctl("rm", A, "--version", str(first))
    trial.expect("1 damaged" in ctl("scrub", status=1), "not removed")
    ended()

    # By itself; what is marked already is not told again.
    with open(B, "wb") as f:
        f.write(b"other")
    p = start("--scrub", "1G")
    said = ""
    while "scrubbed" not in said:
        line = p.stderr.readline()
        trial.expect(line, f"portusd ended: {said}")
        said += line
    trial.expect("1 are damaged" in said and "is damaged, from byte" not in said, f"it says: {said}")
    ended()
    p.wait()
    # Without one, here. What stands twice is repaired by whoever opens it.
    with open(POOL, "r+b") as f:
        f.seek((2 << 20) + 4096 + 20)
        f.write(b"\xff\xff")
    trial.expect("1 copies written anew" in ctl("scrub", status=1), "a slot")
    trial.expect("no portusd" in ctl("scrub", "--background", status=1), "in the background of nobody")
    ctl("rm", B, "--version", str(versions(B)[0]["commit"]))
    trial.expect("0 damaged" in ctl("scrub"), "removed")

    # A version whose list of bytes is lost is left out, and takes what it takes until it is removed.
    save("c.ckpt:7", "d.ckpt:8")
    ended()
    flip(os.path.join(D, "c.ckpt").encode() + b"\0")
    trial.expect("1 versions are damaged" in ctl("pool", "info", POOL, status=1), "info")
    trial.expect("1 damaged" in ctl("pool", "check", POOL, status=1), "check")
    trial.expect("1 versions that were left out are removed" in ctl("pool", "check", "--remove-damaged", POOL), "removed")
    ctl("pool", "check", POOL)
    trial.expect([v["path"] for v in json.loads(ctl("ls", "--json"))["versions"]] == [A, os.path.join(D, "d.ckpt")], "ls")

    # resize: both ways; not below what is used; by a portusd, too.
    ctl("pool", "resize", POOL, "192M")
    trial.expect(os.path.getsize(POOL) == 192 << 20, "not larger")
    trial.expect("versions" in ctl("pool", "resize", POOL, "3M", status=1), "smaller than what it holds")
    p = start()
    ctl("pool", "resize", POOL, "100M")
    trial.expect(os.path.getsize(POOL) == 100 << 20, "not smaller")
    trial.expect("0 damaged" in ctl("verify"), "damaged")
    save("e.ckpt")
    ended()
    p.wait()
    ctl("pool", "resize", POOL, "x", status=2)
    for wrong in ("x", "-1"):
        done = subprocess.run([os.path.join(program.BUILD, "portusd"), "--scrub", wrong, POOL], capture_output=True, timeout=20,
                              env=program.environment(trial.JOB), check=False)
        trial.expect(done.returncode == 2 and b"PORTUS_SCRUB" in done.stderr, f"--scrub {wrong}: {done}")

    # Killed while it does all that: nothing is lost, and nothing leaks.
    chance, before = random.Random(1), versions(D)
    for i in range(10):
        p = start("--scrub", "1G")
        for size in ("96M", "112M"):
            subprocess.Popen([CTL, "pool", "resize", POOL, size], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.Popen([CTL, "scrub", "--background", "--store", POOL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.04)
        p.kill()
        p.wait()
        trial.expect(agents.until(lambda: "another process" not in ctl_any("pool", "check", POOL), 10), "locked")
        ctl("pool", "check", POOL)
        trial.expect(versions(D) == before, "other versions")
    trial.expect("no bad blocks" in ctl("pool", "badblocks", "--clear", POOL), "an ordinary file has no bad blocks")
    ctl("pool", "badblocks", os.path.join(D, "none"), status=1)
    ctl("pool", "check", POOL)
finally:
    ended()
