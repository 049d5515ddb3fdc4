# SPDX-License-Identifier: BSD-3-Clause
# A portusd that calls itself durable, and answers nothing but whether it is alive: an answer to that stands for no commit.
# Right: with PORTUS_ORDER=relaxed the fsync of a file that it has nothing of is the kernel's.
# run: script
import os
import subprocess
import sys

from lib import agents, program, stores, trial
from lib.stores import ALIVE, DONE, HELLO, WELCOME, message

DURABLE = 6  # flags of WELCOME: it is, and it pulls
SAVE = """
import os, time
def until(name):
    while not os.path.exists(name):
        time.sleep(0.01)
block = b"PK\\x03\\x04" + os.urandom(4 << 20)
a = open("a.pt", "wb", buffering=0)
a.write(block)  # while no store has answered: it has no draft
until("welcomed")
with open("b.pt", "wb", buffering=0) as b:
    b.write(block)
until("answered")
time.sleep(0.5)  # what the agent would make of that answer
a.write(block)
os.fsync(a.fileno())
"""


def answer(s, packet):
    op, value = packet[6], int.from_bytes(packet[12:16], "little")
    if op in (HELLO, ALIVE):
        s.send(message(WELCOME, flags=DURABLE) if op == HELLO else message(DONE, value))
        with open(os.path.join(where, "welcomed" if op == HELLO else "answered"), "w", encoding="ascii"):
            pass


fake, where = stores.Fake(answer), trial.fresh()
log = os.path.join(where, "log")
env = program.environment(trial.JOB, "all", PORTUS_STORE=fake.name, PORTUS_ORDER="relaxed")
preload = env.pop("LD_PRELOAD")
try:
    subprocess.run(["strace", "-q", "-e", "trace=fsync", "-o", log, "-E", f"LD_PRELOAD={preload}", sys.executable, "-c", SAVE],
                   cwd=where, env=env, check=True, timeout=50)
    with open(log, encoding="utf-8") as f:
        trial.expect("fsync(" in f.read(), "fsync returned, and nothing was synced")
finally:
    agents.kill(trial.JOB)
