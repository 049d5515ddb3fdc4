# SPDX-License-Identifier: BSD-3-Clause
# Strangers talk to the agent: garbage, other versions, descriptors that are none of its business,
# silence, a crowd, another user.
# Right: each loses its connection and nothing else happens: no descriptor is kept, the worker
# lives, saves go on.
# run: script timeout=90
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

from lib import agents, program, trial
from lib.stores import message

HELLO, WELCOME, ENGAGE, OFF, STORE = 1, 2, 3, 4, 64
save = [trial.test_program("write")]


def knock(where, *packets, fds=()):
    """Sends; returns what came back, b"" for a hang-up, None for silence."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(1)
    try:
        s.connect(where)
        for p in packets:
            socket.send_fds(s, [p], fds) if fds else s.send(p)
        return s.recv(4096)
    except (TimeoutError, socket.timeout):
        return None
    except OSError:
        return b""
    finally:
        s.close()


def descriptors():
    return {p: len(os.listdir(f"/proc/{p}/fd")) for p in agents.pids(trial.JOB)}


holder = program.start([sys.executable, "-c", """
import os, sys
fd = os.open("held.ckpt", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, bytes(4 << 20)); print("x", flush=True); sys.stdin.read(1); os.write(fd, bytes(4 << 20)); os.close(fd)
"""], d := trial.fresh(), program.environment(trial.JOB, "all"), stdin=subprocess.PIPE)
trial.until_line(holder, "x")
keeper, worker = trial.an_agent()
where = agents.address(trial.JOB)
trial.expect(where, "the agent listens nowhere")
samples = [time.sleep(0.1) or descriptors() for _ in range(10)]
before = max(samples, key=samples.count)  # some are open for a moment
files = [os.open("/dev/null", os.O_RDWR), os.open("/etc/passwd", os.O_RDONLY), os.open(d, os.O_RDONLY)]
said = knock(where, message(HELLO, 2))
trial.expect(said and said[6] == WELCOME, f"one that looks was told {said}")
for packets in ([b""], [b"x"], [b"GET / HTTP/1.0\r\n\r\n"], [bytes(32)], [b"\xff" * 4096], [message(HELLO, 1, magic=7)],
                [message(HELLO, 1, version=99)], [message(HELLO, 1, length=39)], [message(HELLO, 77)], [message(STORE)],
                [message(WELCOME)], [message(ENGAGE, 0)], [message(OFF)], [message(HELLO, 1), message(HELLO, 1)],
                [message(HELLO, 1), message(ENGAGE, 5)], [message(HELLO, 1), message(ENGAGE, 0xffffffff)],
                [message(HELLO, 2), message(99)], [message(HELLO, 1, 1 << 63)], [message(HELLO, 2)[:17]]):
    knock(where, *packets)
    for fd in files:
        knock(where, *packets, fds=[fd])
        knock(where, *packets, fds=[fd] * 9)
# Some who say HELLO and have gone before they are answered, as a program does that waits no longer.
for role in (1, 2):
    os.kill(worker, signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(where)
        s.send(message(HELLO, role))
    os.kill(worker, signal.SIGCONT)
    said = knock(where, message(HELLO, 2))
    trial.expect(said and said[6] == WELCOME, f"after one had gone another was told {said}")
crowd = []
for _ in range(400):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    try:
        s.connect(where)
    except OSError:
        pass
    crowd.append(s)
for s in crowd:
    s.close()

# Very many that only look: the last are refused, and one that saves finds a place.
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
crowd, refused = [], 0
while refused < 8 and len(crowd) < hard - 64:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(where)
    s.settimeout(5)
    s.sendall(message(HELLO, 2))
    if struct.unpack("<i", s.recv(64)[28:32])[0] == 0:
        crowd.append(s)
    else:
        refused += 1
        s.close()
trial.compared(save, "a save beside very many", captures=1)
for s in crowd:
    s.close()
if os.geteuid() == 0 and (pid := os.fork()) == 0:
    os.setgroups([])
    os.setresuid(65534, 65534, 65534)
    os._exit(1 if knock(where, message(HELLO, 2)) else 0)
elif os.geteuid() == 0:
    trial.expect(os.waitpid(pid, 0)[1] == 0, "another user was let in")
trial.expect(agents.until(lambda: descriptors() == before, 5), f"descriptors {descriptors()}, before {before}")
trial.expect(agents.pair(trial.JOB) == (keeper, worker), "the worker did not live through it")
holder.stdin.write(b"x")
out = program.finish(holder, 30)
trial.expect(out.status == 0 and os.path.getsize(d + "/held.ckpt") == 8 << 20, "the save in between: " + out.how(), out)
trial.compared(save, "a save afterwards", captures=1)

# A name whose owner is gone while another process, which shares its socket, is just leaving.
LEAVING = """
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1]); s.listen(9)
if os.fork(): os._exit(0)
os.close(1); time.sleep(0.5)
"""
agents.kill(trial.JOB)
trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 10), "the agent lives on")
gone = subprocess.run([sys.executable, "-c", LEAVING.replace("sys.argv[1]", repr(where))], check=True, stdout=subprocess.PIPE)
trial.compared(save, "a save while an agent is leaving", captures=1)
