# SPDX-License-Identifier: BSD-3-Clause
# Another user of the host knocks at the agent all the time, sends it signals, tells it to stop, asks
# for its memory and its files, all while it works.
# Right: nothing comes of it: the save is captured and whole, the agent is the same one, and the other
# user's own save has an agent of its own.
# run: script root timeout=120
import os
import re
import resource
import signal
import socket
import subprocess
import sys

from lib import agents, program, summary, trial

SAVER = """
import os, sys
for i in range(60):
    fd = os.open("new.ckpt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    os.write(fd, bytes([i + 1]) * (4 << 20)); os.write(fd, b"end"); os.close(fd)
    os.rename("new.ckpt", f"{i % 4}.ckpt")
    print(i, flush=True)
"""


def become_other():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def knock(where):
    """All that can be done from outside; ends when it is killed."""
    become_other()
    crowd = []
    while True:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.setblocking(False)
        try:
            s.connect(where)
            s.send(b"x" * 32)
        except OSError:
            pass
        crowd = [*crowd[-200:], s]


def attempts(pids, where):
    """What another user can do to these processes: a list of what worked."""
    become_other()
    worked = []
    for pid in pids:
        for what, do in (("signal", lambda p: os.kill(p, signal.SIGTERM)), ("stop", lambda p: os.kill(p, signal.SIGSTOP)),
                         ("memory", lambda p: open(f"/proc/{p}/mem", "rb")), ("files", lambda p: os.listdir(f"/proc/{p}/fd")),
                         ("limits", lambda p: resource.prlimit(p, resource.RLIMIT_NOFILE, (1, 1)))):
            try:
                do(pid)
                worked.append(what)
            except OSError:
                pass
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(where)
        worked.append("name")
    except OSError:
        pass
    return worked


d = trial.fresh()
holder = trial.writer([["open", "held.ckpt"], ["write", 4 << 20, 1], ["pause"], ["close"]], d)
trial.until_line(holder, "pause")
pair, where = trial.an_agent(), agents.address(trial.JOB)
knockers = []
for _ in range(2):
    if (pid := os.fork()) == 0:
        knock(where)
    knockers.append(pid)
try:
    e = trial.fresh()
    saver = program.start([sys.executable, "-c", SAVER], e, program.environment(trial.JOB, "all"))
    trial.until_line(saver, "5")
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(write, repr(attempts(pair, where)).encode())
        finally:
            os._exit(0)
    os.close(write)
    worked = os.read(read, 1000).decode()
    os.waitpid(pid, 0)
    trial.expect(worked == "[]", f"another user could: {worked}")
    ctl = os.path.join(program.BUILD, "portusctl")
    for words in (["off"], ["status"], ["wait"]):
        subprocess.run([ctl, *words], env=program.environment(trial.JOB), user=65534, group=65534, extra_groups=[],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30, check=False)
    own = trial.fresh()
    os.chown(own, 65534, 65534)
    out = program.run([trial.test_program("write")], own, program.environment(trial.JOB, "all"), 60,
                      user=65534, group=65534, extra_groups=[])
    trial.expect(out.status == 0 and (summary.captured(out.err) or 0) >= 1, "the other user's own save", out)
    out = program.finish(saver, 60)
finally:
    for pid in knockers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
trial.expect(out.status == 0 and (summary.captured(out.err) or 0) >= 60, f"the save in between: {out.how()}", out)
trial.expect(len(re.findall(rb"knocked", out.err)) == 0, "the program hears of it", out)
for i in range(4):
    with open(f"{e}/{i}.ckpt", "rb") as f:
        trial.expect(f.read() == bytes([57 + i]) * (4 << 20) + b"end", f"{i}.ckpt is another")
trial.expect(set(pair) <= set(agents.pids(trial.JOB)), f"agents {agents.pids(trial.JOB)}, before {pair}")
holder.stdin.write(b"x")
trial.expect(program.finish(holder, 30).status == 0, "the one that held a file")
