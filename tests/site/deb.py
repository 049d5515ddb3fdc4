# SPDX-License-Identifier: BSD-3-Clause
# The Debian packages: made, checked by lintian, installed by dpkg on a bare system, used, purged.
# Right: the same sources make the same packages, whatever the directory; lintian has no error and no warning; the
# programs find each other; saves of C and Python programs are captured and have their bytes; nothing is left by purge.
# run: script by=check-site root slow timeout=1500 disk=3
import os
import shutil
import subprocess

from lib import program, site, summary, trial, tree

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
LINTIAN = shutil.which("lintian")
VERSION = subprocess.run(["sed", "-n", 's/.*PORTUS_VERSION "\\(.*\\)"/\\1/p', f"{TOP}/include/portus/portus.h"],
                         capture_output=True, text=True, check=True).stdout.strip()


def make(top, directory, **more):
    env = {k: v for k, v in program.environment(trial.JOB, SOURCE_DATE_EPOCH="1800000000", **more).items() if k not in ("MAKEFLAGS", "B")}
    done = subprocess.run(["sh", os.path.join(top, "scripts/deb"), directory], capture_output=True, text=True, env=env, check=False)
    if done.returncode == 69:
        trial.skip(done.stderr.strip().splitlines()[-1])
    trial.expect(done.returncode == 0, f"scripts/deb: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout.split()


NAMES = ["portus", "portus-store", "portus-rdma"]
tree.need()
made = trial.fresh()
packages = make(TOP, made)
trial.expect([os.path.basename(p).split("_")[:2] for p in packages] == [[p, f"{VERSION}-1"] for p in NAMES], packages)
if LINTIAN:
    out = subprocess.run([LINTIAN, "--allow-root", "--fail-on", "error,warning", f"{made}/portus_{VERSION}-1_amd64.changes"],
                         capture_output=True, text=True, check=False)
    trial.expect(out.returncode == 0, f"lintian:\n{out.stdout}{out.stderr}")
else:
    print("no lintian here: not checked by it")

# In another directory, under another umask and time zone.
copy = trial.fresh() + "/elsewhere"
shutil.copytree(TOP, copy, symlinks=True, ignore=lambda d, names: [n for n in names if n == "build" or n.startswith("build-")])
umask = os.umask(0o077)
again = make(copy, trial.fresh(), TZ="Pacific/Apia")
os.umask(umask)
for a, b in zip(packages, again):
    trial.expect(site.digest(a) == site.digest(b), f"{os.path.basename(a)} is another when made elsewhere")
shutil.rmtree(copy)

# --- on a bare system ---
fields = [subprocess.run(["dpkg-deb", "-f", p, "Depends"], capture_output=True, text=True, check=True).stdout for p in packages]
needed = sorted({word.split()[0] for field in fields for word in field.split(",")} - {"libc6", "portus"})
bare = tree.make(tree.codename() or "stable", [*needed, "python3-minimal"])
for path in packages:
    shutil.copy(path, f"{bare}/root")
names = [f"/root/{os.path.basename(p)}" for p in packages]


def into(*argv, **more):
    return tree.run(bare, list(argv), **more)


def fine(what, *argv, statuses=(0,), **more):
    out = into(*argv, **more)
    trial.expect(out.status in statuses, what, out)
    return out


def files():
    """What dpkg and programs leave, without their own books."""
    found = subprocess.run(["find", ".", "-xdev", "-not", "-path", "./var/*", "-not", "-path", "./root/*"], cwd=bare,
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return {f for f in found if "__pycache__" not in f}


fine("nothing needed is missing", "sh", "-c", "mkdir -p /old /ckpt")
before = files()
fine("dpkg -i portus", "dpkg", "-i", names[0])
out = fine("portus-run true", "portus-run", "--require", "true")
trial.expect(not out.err, "portus-run true says something", out)
out = fine("doctor", "portusctl", "doctor", "python3", "/ckpt", statuses=(0, 1))
trial.expect(b"off  " not in out.out and b"/usr/lib/portus/libportus_shim.so can be loaded" in out.out, "doctor", out)

ckpt = trial.fresh()
shutil.copy(trial.test_program("write"), f"{ckpt}/write")
plain = fine("plain", "./write", ckpt=ckpt)
wanted = {n: site.digest(f"{ckpt}/{n}") for n in os.listdir(ckpt) if os.path.isfile(f"{ckpt}/{n}")}
for name in wanted.keys() - {"write"}:
    os.unlink(f"{ckpt}/{name}")
out = fine("a C program", "portus-run", "--min-write", "1", "--match", "*", "./write", ckpt=ckpt)
trial.expect((summary.captured(out.err) or 0) >= 1 and out.out == plain.out, "a C program is not captured", out)
found = {n: site.digest(f"{ckpt}/{n}") for n in os.listdir(ckpt) if os.path.isfile(f"{ckpt}/{n}")}
trial.expect(len(wanted) > 1 and found == wanted, "a C program: other bytes", out)
out = fine("Python", "portus-run", "python3", "-c", site.SAVE, "x.pt", "100", ckpt=ckpt)
trial.expect(summary.captured(out.err) == 1 and site.digest(f"{ckpt}/x.pt") == site.right(100), "Python", out)

fine("dpkg -i, the others", "dpkg", "-i", *names[1:])
out = fine("a save with a store", "sh", "-c", "portusctl pool create /ckpt/pool 512M && PORTUS_STORE=/ckpt/pool portus-run python3 -c \"$0\" y.pt 40 && "
           "for i in 1 2 3 4 5 6 7 8 9 10; do portusctl ls --store /ckpt/pool y.pt && break; sleep 1; done; "
           "rm y.pt && portusctl restore --store /ckpt/pool y.pt", site.SAVE, ckpt=ckpt)
trial.expect(site.digest(f"{ckpt}/y.pt") == site.right(40), "restored: other bytes", out)
fine("dpkg --verify", "dpkg", "--verify", *NAMES)
trial.expect(os.path.exists(f"{bare}/etc/portus/portusd.conf"), "no configuration")
fine("dpkg --purge", "dpkg", "--purge", *reversed(NAMES))
trial.expect(files() == before, f"left behind: {sorted(files() ^ before)}")
