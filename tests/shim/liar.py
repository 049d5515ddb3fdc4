# SPDX-License-Identifier: BSD-3-Clause
# A client whose log makes no sense loses its session, and goes on to change it and to speak; its place in the control
# segment becomes another program's.
# Right: one line, the place is free at once; when the liar hangs up the other program's session goes on.
# run: script timeout=60
import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import time

from lib import agents, program, trial
from lib.stores import message

HELLO, ENGAGE, OFF = 1, 3, 4
FREE, ACTIVE = 0, 1
SESSIONS, SESSION = 384, 128  # portus_control.session[0], and the size of one

SAVE = """
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, bytes(4 << 20)); print("x", flush=True); sys.stdin.read(1); os.write(fd, bytes(4 << 20)); os.close(fd)
"""


def saver(name):
    env = program.environment(trial.JOB, "all", PORTUS_LOG=f"warn:{log}")
    process = program.start([sys.executable, "-c", SAVE, name], trial.TOP, env, stdin=subprocess.PIPE)
    trial.until_line(process, "x")
    return process


def ends(process, name):
    process.stdin.write(b"x")
    out = program.finish(process, 30)
    trial.expect(out.status == 0 and os.path.getsize(os.path.join(trial.TOP, name)) == 8 << 20, f"{name}: {out.how()}", out)
    return out


log = os.path.join(trial.TOP, "log")
first = saver("first.ckpt")
trial.an_agent()
where = agents.address(trial.JOB)
for lie in ("a head that is far ahead", "a record of nowhere"):
    liar = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    liar.settimeout(5)
    liar.connect(where)
    liar.send(message(HELLO, 1))
    said, fds, _, _ = socket.recv_fds(liar, 64, 4)
    number = struct.unpack_from("<I", said, 12)[0]
    control, ring = mmap.mmap(fds[0], 0), mmap.mmap(fds[2], 0)
    trial.expect(control[:8] == b"PTUSTRL1" and len(fds) == 3, f"no control segment: {said}")
    at = SESSIONS + SESSION * number

    def state():
        return struct.unpack_from("<II", control, at)

    trial.expect(state() == (ACTIVE, os.getpid()), f"it is another's: {state()}")
    if "record" in lie:
        struct.pack_into("<QQQII", ring, 0, 1, 0, 1 << 60, 4096, 0)
    struct.pack_into("<Q", control, at + 8, 2 if "record" in lie else 1 << 41)
    os.write(fds[1], struct.pack("<Q", 1))
    trial.expect(agents.until(lambda: state()[0] == FREE, 5), f"{lie}: its session has not ended: {state()}")
    other = saver("other.ckpt")
    trial.expect(state() == (ACTIVE, other.pid), f"{lie}: its place is not the next one's: {state()}")
    try:
        liar.send(message(OFF))
        socket.send_fds(liar, [message(ENGAGE, 0, os.stat(log).st_ino)], [os.open(log, os.O_RDWR)])
    except OSError:
        pass
    liar.close()
    time.sleep(0.3)
    trial.expect(state() == (ACTIVE, other.pid), f"{lie}: when the liar hung up another's session ended: {state()}")
    out = ends(other, "other.ckpt")
    trial.expect(re.search(rb"captured 1 file", out.err), f"{lie}: the other program is not captured", out)
    os.unlink(os.path.join(trial.TOP, "other.ckpt"))
    for fd in fds:
        os.close(fd)
ends(first, "first.ckpt")

# One that has lied and never stops: a line, not a line a turn.
first = saver("first.ckpt")
liar = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
liar.connect(agents.address(trial.JOB))
liar.send(message(HELLO, 1))
said, fds, _, _ = socket.recv_fds(liar, 64, 4)
at = SESSIONS + SESSION * struct.unpack_from("<I", said, 12)[0]
control = mmap.mmap(fds[0], 0)
with open(log, encoding="utf-8") as f:
    before = f.read().count("\n")
end = time.monotonic() + 1
head = 1 << 41
while time.monotonic() < end:
    struct.pack_into("<Q", control, at + 8, head)
    head += 1 << 21
    os.write(fds[1], struct.pack("<Q", 1))
with open(log, encoding="utf-8") as f:
    lines = f.read().splitlines()[before:]
trial.expect(1 <= len(lines) <= 3, f"{len(lines)} lines: {lines[:5]}")
liar.close()
ends(first, "first.ckpt")
