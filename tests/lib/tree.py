# SPDX-License-Identifier: BSD-3-Clause
"""Root directories of bare systems, made by mmdebstrap, and commands that run in them as a container's do.

A tree is made once in the build directory, as a tar archive, and unpacked for each test.
"""
import os
import platform
import subprocess
import tempfile

from . import program, trial

# A container, by hand: own mounts, processes, IPC and cgroup view; /proc, a small /dev, 64 MiB of /dev/shm, and of
# the machine only what is bound. $1 the tree, $2 a directory that becomes /ckpt, $3 "ro" or "rw", $4 a user; then the command.
ENTER = r"""
set -eu
tree=$1 ckpt=$2 mode=$3 user=$4
shift 4
mount --bind "$tree" "$tree"
mkdir -p "$tree/ckpt" "$tree/old"
mount --bind "$ckpt" "$tree/ckpt"
mount -t proc proc "$tree/proc"
mount -t tmpfs -o mode=755 dev "$tree/dev"
for name in null zero full random urandom tty; do
    : >"$tree/dev/$name"
    mount --bind "/dev/$name" "$tree/dev/$name"
done
ln -s /proc/self/fd "$tree/dev/fd"
mkdir "$tree/dev/shm"
mount -t tmpfs -o size=64m,mode=1777 shm "$tree/dev/shm"
cd "$tree"
pivot_root . old
umount -l /old
[ "$mode" = rw ] || mount -o remount,bind,ro /
cd /ckpt
case $user in
0) exec "$@" ;;
*) exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@" ;;
esac
"""
UNSHARE = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child", "--propagation", "private"]


def codename():
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def need():
    """Skips where no tree can be made."""
    for command in ("mmdebstrap", "pivot_root", "setpriv"):
        if subprocess.run(["sh", "-c", f"command -v {command}"], stdout=subprocess.DEVNULL, check=False).returncode:
            trial.skip(f"no {command} here")
    if subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        trial.skip("no namespaces here")


def make(suite, packages=()):
    """A fresh tree of that release with these packages; skips where its packages cannot be had."""
    need()
    archive = os.path.join(program.BUILD, "trees", "-".join([suite, *packages]) + ".tar")
    if not os.path.exists(archive):
        os.makedirs(os.path.dirname(archive), exist_ok=True)
        half = f"{archive}.{os.getpid()}"
        include = [f"--include={','.join(packages)}"] if packages else []
        made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", *include, suite, half],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode:
            if os.path.exists(half):
                os.unlink(half)
            trial.skip(f"mmdebstrap cannot make a {suite}: {(made.stdout.strip().splitlines() or ['?'])[-1]}")
        os.rename(half, archive)
    top = trial.fresh()
    subprocess.run(["tar", "-C", top, "-xf", archive, "--exclude=./dev/*"], check=True)
    os.chmod(top, 0o755)  # a user without rights looks in
    return top


def start(top, argv, ckpt, read_only=False, user=0, env=None, **options):
    """Starts argv as process 1 of a container of the tree, in /ckpt, with these variables and no others."""
    inside = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "PORTUS_SUMMARY": "1",
              "PORTUS_SAMPLE": "0", **(env or {})}
    return program.start([*UNSHARE, "sh", "-c", ENTER, "container", top, ckpt, "ro" if read_only else "rw", str(user),
                          "env", "-i", *(f"{k}={v}" for k, v in inside.items()), *argv],
                         "/", {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **options)


def run(top, argv, ckpt=None, timeout=120, **more):
    """As start; returns the outcome."""
    return program.finish(start(top, argv, ckpt or tempfile.mkdtemp(dir=trial.TOP), **more), timeout)
