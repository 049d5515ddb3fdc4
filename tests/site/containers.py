# SPDX-License-Identifier: BSD-3-Clause
# What docs/deploy.md says of containers, by what they are made of: a root directory of its own, process 1, 64 MiB of
# /dev/shm, a read-only root, a user whom no passwd knows, the files of the wheel on a volume.
# Right: captured, and whole when process 1 has ended: by itself, by SIGTERM, or after `portusctl wait` where a child of it was
# killed; two containers on one network do not meet; what is captured counts as the container's memory.
# run: script by=check-site root slow timeout=900 disk=2
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib import agents, program, site, summary, trial, tree

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")

made = subprocess.run(["sh", os.path.join(TOP, "scripts/wheel"), trial.fresh()], capture_output=True, text=True, check=False,
                      env={k: v for k, v in program.environment(trial.JOB).items() if k not in ("MAKEFLAGS", "B")})
if made.returncode == 69:
    trial.skip(made.stderr.strip().splitlines()[-1])
trial.expect(made.returncode == 0, made.stderr[-2000:])
bare = tree.make(tree.codename() or "stable", ["python3-minimal"])

# The volume: what an init container leaves there.
volume = f"{bare}/opt/portus"
env = tempfile.mkdtemp(dir=trial.TOP)
subprocess.run([sys.executable, "-m", "venv", env], check=True)
subprocess.run([f"{env}/bin/python", "-m", "pip", "-q", "install", "--no-index", "--prefix", volume, made.stdout.split()[-1]], check=True)
shutil.rmtree(env)
SHIM = "/opt/portus/lib/portus/libportus_shim.so"
ON = {"LD_PRELOAD": SHIM}
SAVE = ["python3", "-c", site.SAVE, "x.pt", "200"]  # more than /dev/shm has


def whole(what, out, directory, captured=1):
    trial.expect(out.status == 0, what, out)
    trial.expect(summary.captured(out.err) == captured, f"{what}: not captured", out)
    trial.expect(site.digest(f"{directory}/x.pt") == site.right(200), f"{what}: other bytes", out)


# Process 1 is the program; when it has ended nothing of the container lives, and the file is whole.
d = trial.fresh()
out = tree.run(bare, SAVE, d, env=ON)
whole("process 1", out, d)
trial.expect(out.out == b"saved 1\n", "it is not process 1", out)

# A hardened one: no right, no name, no home, no place to write but the volume of checkpoints.
d = trial.fresh()
os.chown(d, 12345, 12345)
out = tree.run(bare, ["sh", "-c", '! touch /tmp/x 2>/dev/null && ! id -un 2>/dev/null && exec "$@"', "sh", *SAVE], d, env=ON, read_only=True, user=12345)
whole("a read-only root and an unknown user", out, d)
trial.expect(os.stat(f"{d}/x.pt").st_uid == 12345, "the file is another's")
out = tree.run(bare, ["/opt/portus/bin/portusctl", "doctor", "python3", "/ckpt"], d, read_only=True, user=12345)
trial.expect(out.status in (0, 1) and b"off  " not in out.out, "doctor says that nothing can be captured", out)

# A launcher is process 1, and its rank is killed right after the save: the launcher waits.
d = trial.fresh()
rank = site.SAVE + "\nsys.stdout.flush(); os.kill(os.getpid(), 9)"
out = tree.run(bare, ["sh", "-c", 'python3 -c "$0" x.pt 200; /opt/portus/bin/portusctl wait; exit 0', rank], d, env=ON)
trial.expect(out.status == 0 and b"saved" in out.out, "a killed rank", out)
trial.expect(site.digest(f"{d}/x.pt") == site.right(200), "a killed rank, and portusctl wait: other bytes", out)

# SIGTERM, as engines stop a container: the program saves once more and ends.
d = trial.fresh()
code = ("import signal, sys, time\ndef last(*_):\n    exec(save)\n    sys.exit(0)\nsave = " + repr(site.SAVE) +
        "\nsignal.signal(signal.SIGTERM, last)\nopen('ready', 'w').close()\nwhile True: time.sleep(0.1)")
under = tree.start(bare, ["python3", "-c", code, "x.pt", "200"], d, env=ON)
trial.expect(agents.until(lambda: os.path.exists(f"{d}/ready"), 60), "it does not begin")
with open(f"/proc/{under.pid}/task/{under.pid}/children", encoding="ascii") as f:
    os.kill(int(f.read().split()[0]), signal.SIGTERM)
whole("SIGTERM", program.finish(under, 60), d)

# Two at once, of one user, on the network of the host: the agents' names are in one place.
both = [trial.fresh(), trial.fresh()]
running = [tree.start(bare, SAVE, d, env=ON) for d in both]
for under, d in zip(running, both):
    whole("one of two", program.finish(under, 120), d)

# The memory of a ring counts where the container's does. (The older interface: where memory.limit_in_bytes is.)
group = f"/sys/fs/cgroup/memory/{trial.JOB}"
if os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"):
    os.mkdir(group)
    try:
        with open(f"{group}/memory.limit_in_bytes", "w", encoding="ascii") as f:
            f.write(str(512 << 20))
        d = trial.fresh()
        hold = "import time\n" + site.SAVE + "\nopen('saved', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.05)"
        under = tree.start(bare, ["python3", "-c", hold, "x.pt", "200"], d, env=ON,
                           preexec_fn=lambda: open(f"{group}/cgroup.procs", "w", encoding="ascii").write(str(os.getpid())))
        trial.expect(agents.until(lambda: os.path.exists(f"{d}/saved"), 60), "a limit: it does not save")
        with open(f"{group}/memory.stat", encoding="ascii") as f:
            shared = int(dict(line.split() for line in f)["shmem"])
        open(f"{d}/go", "w", encoding="ascii").close()
        out = program.finish(under, 60)
        whole("a memory limit", out, d)
        trial.expect(16 << 20 <= shared <= 256 << 20, f"{shared} bytes of shared memory counted, of half of 512 MiB at most", out)
    finally:
        for _ in range(50):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.2)
else:
    print("no memory cgroup of the older kind here: where a ring counts was not looked at")
