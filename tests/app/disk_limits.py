# SPDX-License-Identifier: BSD-3-Clause
# Saves until there is no more: a quota, no room or no inodes on several file systems, a disk that cannot be written.
# Right: the errors of a run without the shim; what nobody was told to have failed is there, whole.
# run: script root timeout=300
import ast
import os
import subprocess
import sys

from lib import agents, program, summary, trial

# Says for each file what was written to it, and the calls that failed. The last argument: pieces of each file.
SAVE = """
import os, sys
data = os.urandom(1 << 20) * 4
user, files, pieces = map(int, sys.argv[1:])
if user: os.setresgid(user, user, user); os.setresuid(user, user, user)
said = {}
for i in range(files):
    name, length, failed = f"f{i}.ckpt", 0, []
    try:
        fd = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    except OSError as e:
        print("open", e.errno)
        continue
    for step in range(pieces):
        try:
            n = os.write(fd, data)
            length += n
        except OSError as e:
            failed.append(("write", e.errno))
            break
    for what in os.fsync, os.close:
        try: what(fd)
        except OSError as e: failed.append((what.__name__, e.errno))
    said[name] = length, failed
print(said)
"""
USER = 65534
# A journal that cannot be written, by chance, makes the file system read-only.
NO_JOURNAL = ("ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0")


def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def image(name, megabytes, below=trial.TOP):
    path = os.path.join(below, name + ".image")
    with open(path, "wb") as f:
        f.truncate(megabytes << 20)
    return path


def mounted(name, path, kind, *more, options="loop"):
    """Where a file system made in that image is mounted, or None."""
    mount = os.path.join(trial.TOP, name)
    os.makedirs(mount, exist_ok=True)
    if run(f"mkfs.{kind}", *more, path).returncode:
        return None
    return mount if run("mount", "-o", options, path, mount).returncode == 0 else None


def ext4_quota():
    mount = mounted("ext4-quota", image("ext4-quota", 200), "ext4", "-q", "-F", "-O", "quota", options="loop,usrquota")
    if mount:
        trial.expect(run("setquota", "-u", str(USER), "0", "40000", "0", "0", mount).returncode == 0, "setquota")
    return mount


def btrfs_quota():
    mount = mounted("btrfs-quota", image("btrfs-quota", 400), "btrfs", "-q")
    top = os.path.join(mount, "top") if mount else None
    for argv in (("subvolume", "create", top), ("quota", "enable", mount), ("qgroup", "limit", "40M", top)):
        if mount and run("btrfs", *argv).returncode:
            run("umount", mount)
            return None
    return mount


def full(kind, megabytes, *more):
    return lambda: mounted(f"{kind}-full", image(f"{kind}-full", megabytes), kind, *more)


def shared():
    """A full file system behind a FUSE, where no blocks are reserved: the drain finds that there is no room."""
    below, mount = full("ext4", 64, "-q", "-F")(), os.path.join(trial.TOP, "fuse")
    os.makedirs(mount, exist_ok=True)
    if below and run("bindfs", below, mount).returncode == 0:
        return mount
    if below:
        run("umount", below)
    return None


def few_inodes():
    return mounted("ext4-inodes", image("ext4-inodes", 150), "ext4", "-q", "-F", "-N", "32")


def unwritable():
    """An ext4 in an image that its own file system has no room for: what is written to it is lost at fsync."""
    below = os.path.join(trial.TOP, "below")
    os.makedirs(below, exist_ok=True)
    if run("mount", "-t", "tmpfs", "-o", "size=48m", "none", below).returncode:
        return None
    mount = mounted("unwritable", image("unwritable", 400, below), *NO_JOURNAL, options="loop,errors=continue")
    if mount is None:
        run("umount", below)
    return mount


def failing():
    """The same in an image that has a quota: the kernel's loop makes EIO of that."""
    below = btrfs_quota()
    if below is None:
        return None
    path = image("failing", 400, os.path.join(below, "top"))
    mount = mounted("failing", path, *NO_JOURNAL, options="loop,errors=continue")
    if mount is None:
        run("umount", below)
    return mount


def take_down(mount):
    for path in [mount] + [os.path.join(trial.TOP, name) for name in ("ext4-full", "btrfs-quota", "below")]:
        agents.until(lambda: not os.path.ismount(path) or run("umount", path).returncode == 0, 10)
    for name in os.listdir(trial.TOP):
        if name.endswith(".image"):
            os.unlink(os.path.join(trial.TOP, name))


def save(name, make, below, user, files, pieces, mode):
    """The errors that the program had, or None where there is no such file system."""
    mount = make()
    if mount is None:
        return None
    try:
        place = os.path.join(mount, below)
        if user:
            os.chmod(place, 0o777)
        out = program.run([sys.executable, "-c", SAVE, str(user), str(files), str(pieces)], place,
                          program.environment(trial.JOB, mode, PORTUS_SHARED=1), 60)
        trial.expect(out.status == 0, f"{name}, {mode}: {out.how()}", out)
        lines = out.out.decode().splitlines()
        said = ast.literal_eval(lines[-1])
        errors = set(lines[:-1])
        for file, (length, failed) in said.items():
            errors.update(f"{what} {error}" for what, error in failed)
            size = os.path.getsize(os.path.join(place, file))
            trial.expect(failed or size == length, f"{name}, {mode}: {file} has {size} bytes of {length}", out)
        if mode:
            trial.expect((summary.captured(out.err) or 0) >= 1, f"{name}, {mode}: nothing was captured", out)
        return errors
    finally:
        take_down(mount)


tried = []
for name, make, below, user, files, pieces in (
        ("ext4 with a quota", ext4_quota, "", USER, 3, 7),
        ("btrfs with a quota", btrfs_quota, "top", 0, 3, 7),
        ("full ext4", full("ext4", 64, "-q", "-F"), "", 0, 3, 9),
        ("full xfs", full("xfs", 330, "-q"), "", 0, 4, 40),
        ("full btrfs", full("btrfs", 130, "-q"), "", 0, 3, 20),
        ("full ext4 behind a FUSE", shared, "", 0, 3, 9),
        ("ext4 without inodes", few_inodes, "", 0, 40, 1),
        ("ext4 on an unwritable disk", unwritable, "", 0, 2, 8),
        ("ext4 on a failing disk", failing, "", 0, 2, 8)):
    plain = save(name, make, below, user, files, pieces, None)
    if plain is None:
        print(f"{name}: not to be had here")
        continue
    trial.expect(plain, f"{name}: no error without the shim")
    for mode in ("default", "all"):
        errors, wanted = save(name, make, below, user, files, pieces, mode), plain
        if make is shared:  # at a later call, perhaps
            errors, wanted = ({text.split()[1] for text in texts} for texts in (errors, plain))
        trial.expect(errors == wanted, f"{name}, {mode}: errors {errors}, without the shim {wanted}")
    print(f"{name}: {', '.join(sorted(plain))}")
    tried.append(name)
if not tried:
    trial.skip("no file system can be mounted here")
