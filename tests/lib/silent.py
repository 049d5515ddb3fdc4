# SPDX-License-Identifier: BSD-3-Clause
"""A file system that does not answer when it is told so: a FUSE whose daemon is stopped, or SILENT_MOUNT.

That one is a server of NFS's, say, and SILENT_ON and SILENT_OFF are the commands for it: see tests/vm/node.sh.
"""
import atexit
import os
import signal
import subprocess

from . import agents, trial

mount, _daemon = os.environ.get("SILENT_MOUNT"), None


def silent(yes):
    if _daemon:
        os.kill(_daemon.pid, signal.SIGSTOP if yes else signal.SIGCONT)
    else:
        subprocess.run(os.environ["SILENT_ON" if yes else "SILENT_OFF"], shell=True, check=True)


def _end():
    silent(False)
    agents.kill(trial.JOB)
    if _daemon:
        subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL, check=False)
        _daemon.kill()
        _daemon.wait()


if not mount:
    below, mount = os.path.join(trial.TOP, "below"), os.path.join(trial.TOP, "mount")
    os.mkdir(below), os.mkdir(mount)
    _daemon = subprocess.Popen(["sh", "-c", 'exec bindfs -f "$0" "$1" 2>/dev/null', below, mount])
    if not agents.until(lambda: _daemon.poll() is not None or os.path.ismount(mount), 10) or _daemon.poll() is not None:
        _daemon.kill()
        trial.skip("no bindfs, or no FUSE can be mounted here")
atexit.register(_end)
