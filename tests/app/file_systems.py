# SPDX-License-Identifier: BSD-3-Clause
# The behaviours that lean most on the file system, on xfs, btrfs, overlay, and on a FUSE with
# PORTUS_SHARED=1 and 2; each on a small disk of its own.
# Right: as without the shim, and captured; a FUSE without PORTUS_SHARED is left alone, with one line.
# run: script root slow timeout=300
import os
import re
import subprocess

from lib import agents, state, summary, trial

PROGRAMS = ("write writev pwrite patch rename unlink fsync ftruncate truncate fallocate reopen latest sendfile mmap "
            "stat directory threads_files threads_one ofstream unseen append append_flag tiny").split()

# Without readers that have no shim: nothing makes those wait with PORTUS_SHARED=2.
ALONE = "write writev pwrite patch unlink fsync ftruncate truncate fallocate threads_one ofstream".split()


def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def place(name):
    path = os.path.join(trial.TOP, name)
    os.mkdir(path)
    return path


def disk(kind):
    """A mounted file system in a file, or None where it is not to be had."""
    image, mount = os.path.join(trial.TOP, kind + ".image"), place(kind)
    with open(image, "wb") as f:
        f.truncate(6 << 30)
    made = run(f"mkfs.{kind}", "-q", image)
    trial.expect(made.returncode == 0, made.stdout)
    return mount if run("mount", "-o", "loop", image, mount).returncode == 0 else None


def overlay():
    lower, upper, work, mount = (place("overlay-" + name) for name in ("lower", "upper", "work", "mount"))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    return mount if run("mount", "-t", "overlay", "overlay", "-o", options, mount).returncode == 0 else None


def fuse():
    below, mount = place("fuse-below"), place("fuse")
    return mount if run("bindfs", below, mount).returncode == 0 else None


def all_of_it(mount, kind, programs, **more):
    captured = 0
    for name in programs:
        out = trial.compared([trial.test_program(name)], f"{kind}: {name}", "all", top=mount, **more)
        captured += summary.captured(out.err) or 0
        run("sh", "-c", f"rm -rf {mount}/d*")
    trial.expect(captured >= len(programs), f"{kind}: captured {captured} files only")
    print(f"{kind}: {captured} files captured")


tried = []
for kind, make in (("xfs", lambda: disk("xfs")), ("btrfs", lambda: disk("btrfs")), ("overlay", overlay)):
    mount = make()
    if mount is None:
        print(f"{kind}: cannot be mounted here")
        continue
    # xfs keeps what it allocates ahead of a plain writer once blocks of a file have been reserved.
    # Cutting that off could cut off what another process is just writing.
    state.SLACK = 64 << 20 if kind == "xfs" else 256 << 10
    try:
        all_of_it(mount, kind, PROGRAMS + ["link"])
        tried.append(kind)
    finally:
        agents.until(lambda: not agents.held(trial.JOB, mount), 10)
        run("umount", mount)

mount = fuse()
if mount is None:
    print("fuse: cannot be mounted here")
else:
    try:
        # Not link: a FUSE shows sizes of other names late, by itself.
        all_of_it(mount, "fuse, PORTUS_SHARED=1", PROGRAMS, PORTUS_SHARED=1)
        all_of_it(mount, "fuse, PORTUS_SHARED=2", ALONE, PORTUS_SHARED=2)
        out = trial.compared([trial.test_program("write")], "fuse, left alone", "default", top=mount)
        trial.expect((summary.captured(out.err) or 0) == 0, "fuse: captured unasked", out)
        trial.expect(len(re.findall(rb"is fuse: written as usual.*PORTUS_SHARED=1", out.err)) == 1,
                     "fuse: not said once", out)
        tried.append("fuse")
    finally:
        agents.until(lambda: not agents.held(trial.JOB, mount), 10)
        run("umount", mount)
if not tried:
    trial.skip("no file system can be mounted here")
