# SPDX-License-Identifier: BSD-3-Clause
# Clients that lie again and again: heads of their logs that cannot be, thousands of records of files that they never sent,
# connections that break the protocol, knocks of another user.
# Right: a bounded number of lines about it in the agent's log, the worker lives, others save.
# run: script timeout=120
import mmap
import os
import socket
import struct
import subprocess
import sys
import time

from lib import agents, program, trial
from lib.stores import message

HELLO, WELCOME, ENGAGE = 1, 2, 3
SESSIONS, SESSION, RECORD, RECORDS = 384, 128, 32, 16384  # include/portus/ring.h
save, log = [trial.test_program("write")], os.path.join(trial.TOP, "log")


def lines():
    with open(log, encoding="utf-8") as f:
        return f.read().splitlines()


def knock():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(where)  # waits while there are too many
    s.settimeout(5)
    return s


class Client:
    """One that has been let in: its place in the control segment, and its ring."""

    def __init__(self):
        self.socket = knock()
        self.socket.send(message(HELLO, 1))
        said, fds, _, _ = socket.recv_fds(self.socket, 64, 3)
        trial.expect(len(fds) == 3 and said[6] == WELCOME, f"not let in: {said}")
        self.control, self.ring = mmap.mmap(fds[0], 0), mmap.mmap(fds[2], RECORDS * RECORD)
        for fd in fds:
            os.close(fd)
        self.at = SESSIONS + SESSION * struct.unpack("<I", said[12:16])[0]
        pid = struct.unpack("<I", self.control[self.at + 4:self.at + 8])[0]
        trial.expect(pid == os.getpid(), f"the place of process {pid}: another layout?")

    def head(self, value):
        self.control[self.at + 8:self.at + 16] = struct.pack("<Q", value << 1)


def bounded(what, before, most=12):
    time.sleep(0.5)
    new = lines()[before:]
    trial.expect(len(new) <= most, f"{what}: {len(new)} lines: {new[:3]} ... {new[-3:]}")
    trial.expect(new, f"{what}: not said at all")
    trial.expect(agents.pair(trial.JOB) == (keeper, worker), f"{what}: the worker did not live through it")
    trial.compared(save, f"{what}: a save beside", captures=1)
    print(f"{what}: {len(new)} lines")


holder = program.start([sys.executable, "-c", """
import os, sys
fd = os.open("held.ckpt", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, bytes(4 << 20)); print("x", flush=True); sys.stdin.read(1); os.close(fd)
"""], trial.fresh(), program.environment(trial.JOB, "all", PORTUS_LOG=f"warn:{log}"), stdin=subprocess.PIPE)
trial.until_line(holder, "x")
keeper, worker = trial.an_agent()
where = agents.address(trial.JOB)

before, liar = len(lines()), Client()
for i in range(1000):
    liar.head(40000 + 1000 * i)
    time.sleep(0.001)
liar.socket.close()
bounded("impossible heads", before)

before, liar = len(lines()), Client()
for i in range(10000):
    liar.ring[i * RECORD:(i + 1) * RECORD] = struct.pack("<QQQII", i + 1, 0, 0, 100, 7)
liar.head(10000)
liar.socket.close()
bounded("records of no file", before)

before = len(lines())
for i in range(300):
    with knock() as s:
        s.send(message(77))
bounded("a broken protocol", before)

before = len(lines())
for i in range(60):
    liar = Client()
    liar.head(40000)
    time.sleep(0.01)
    liar.socket.close()
trial.expect(len(lines()) - before <= 110, f"one after another: {len(lines()) - before} lines")

if os.geteuid() == 0:
    before = len(lines())
    if (pid := os.fork()) == 0:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        for i in range(300):
            knock().close()
        os._exit(0)
    os.waitpid(pid, 0)
    bounded("another user", before)
holder.stdin.write(b"x")
out = program.finish(holder, 30)
trial.expect(out.status == 0, "the save in between: " + out.how(), out)
