# SPDX-License-Identifier: BSD-3-Clause
# What is passed to a user's own portusd as a ring, and is none: a file, a pipe, a memory file that can be cut; and is cut
# while it is read.
# Right: only what cannot become smaller is taken; portusd lives, and serves the next one.
# run: script timeout=60
import atexit
import fcntl
import os
import re
import socket
import struct
import subprocess

from lib import agents, program, trial
from lib.stores import ALIVE, CTL, DAEMON, DONE, HELLO, WELCOME, message

RING, DRAFT, PULL = 71, 72, 73
DATA = 16384 * 32

pool = os.path.join(trial.TOP, "pool")
subprocess.run([CTL, "pool", "create", pool, "64M"], stdout=subprocess.DEVNULL, check=True)
store = subprocess.Popen([DAEMON, pool], env=program.environment(trial.JOB), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
atexit.register(store.kill)


def address():
    """That of this portusd."""
    inodes = {re.sub(r"\D", "", os.readlink(f"/proc/{store.pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{store.pid}/fd")}
    with open("/proc/net/unix", encoding="utf-8") as f:
        return next((w[7] for w in map(str.split, f) if len(w) > 7 and w[6] in inodes and w[7].startswith("@portus-store/")), None)


def talk(*packets):
    """Sends each with its descriptors; whether it is heard after that."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(5)
        s.connect("\0" + where[1:])
        try:
            for packet, *fds in [(message(HELLO, 3),), *packets, (message(ALIVE, 9),)]:
                socket.send_fds(s, [packet], fds)
            while said := s.recv(4096):
                if said[6] == DONE and struct.unpack_from("<I", said, 12)[0] == 9:
                    return True
        except OSError:
            pass
    return False


def ring(fd):
    """Room for one record, which is there."""
    os.truncate(fd, DATA + (1 << 20))
    os.pwrite(fd, struct.pack("<QQQII", 1, 0, 0, 100000, 0), 0)
    return fd


where = agents.until(address, 10)
trial.expect(where and talk(), "portusd does not serve")
name = os.path.join(trial.TOP, "file")
with open(name, "wb") as f:
    f.write(bytes(100000))
path = os.open(name, os.O_PATH)
draft = (message(DRAFT, 1, 0, flags=1 << 16), path)
file, pipe = os.open(os.path.join(trial.TOP, "ring"), os.O_CREAT | os.O_RDWR), os.pipe()[0]
loose, sealed = os.memfd_create("loose", os.MFD_ALLOW_SEALING), os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
for fd in (ring(file), ring(loose), pipe, path):
    kept = talk((message(RING, 1), fd), draft)
    trial.expect(store.poll() is None and not kept, f"{os.readlink(f'/proc/self/fd/{fd}')} is taken for a ring")
    if fd in (file, loose):  # one that has been taken all the same is cut under it
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect("\0" + where[1:])
            try:
                for packet, *fds in ((message(HELLO, 3),), (message(RING, 1), fd), draft):
                    socket.send_fds(s, [packet], fds)
                os.truncate(fd, 0)
                s.send(message(PULL, 1, 1))
                s.settimeout(2)
                while s.recv(4096):
                    pass
            except OSError:
                pass
        trial.expect(agents.until(lambda: store.poll() is not None, 0.5) is False, f"portusd has ended: {store.poll()}")
fcntl.fcntl(ring(sealed), fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
trial.expect(talk((message(RING, 1), sealed), draft, (message(PULL, 1, 1),)), "a right ring is refused")
store.terminate()
trial.expect(store.wait(20) == 0, f"portusd: {store.stderr.read()}")
