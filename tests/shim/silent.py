# SPDX-License-Identifier: BSD-3-Clause
# Somebody has the agent's name and is none: accepts and says nothing, does not accept, hangs up,
# talks nonsense, is another user; the program saves, and renames many files.
# Right: its output, end and files are as ever, and all of it waits a few seconds at most.
# run: script root timeout=200
import os
import socket
import sys
import threading

from lib import agents, trial

SAVES = """
import os
for i in range(12):
    fd = os.open("new.ckpt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    os.write(fd, bytes([i]) * (2 << 20)); os.close(fd)
    os.rename("new.ckpt", f"{i}.ckpt")
"""
RENAMES = """
import os
open("a", "w").close()
for i in range(15):
    os.rename("a", "b"); os.rename("b", "a"); os.mkdir(f"d{i}")
"""
trial.compared([sys.executable, "-c", SAVES], "with an agent", captures=12)
where = agents.address(trial.JOB)
trial.expect(where, "the agent listens nowhere")
agents.kill(trial.JOB)
trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 10), "the agent does not end")


ANSWERS = {"is silent": lambda one: True, "hangs up": lambda one: False, "talks nonsense": lambda one: one.send(b"\xff" * 32)}


def accept(s, answer):
    kept = []
    try:
        while True:
            one, _ = s.accept()
            if answer(one):
                kept.append(one)
    except OSError:
        pass  # it is over


def try_with(what, backlog=128, user=0):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.seteuid(user)
    s.bind(where)
    s.listen(backlog)
    os.seteuid(0)
    thread = threading.Thread(target=accept, args=(s, ANSWERS.get(what)), daemon=True)
    if what in ANSWERS:
        thread.start()
    for text in (SAVES, RENAMES):
        out = trial.compared([sys.executable, "-c", text], f"an agent that {what}", timeout=60)
        print(f"{what}: {out.seconds:.1f} s")
        trial.expect(out.seconds < 9, f"an agent that {what}: took {out.seconds:.0f} s", out)
    s.shutdown(socket.SHUT_RDWR)
    if what in ANSWERS:
        thread.join()
    s.close()


for name in ANSWERS:
    try_with(name)
try_with("does not accept")
try_with("is busy", backlog=0)
try_with("is another user's", user=65534)
trial.compared([sys.executable, "-c", SAVES], "with an agent again", captures=12)
