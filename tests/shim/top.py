# SPDX-License-Identifier: BSD-3-Clause
# portusctl top and advise.
# Right: top shows what a program saves, from the agent's numbers, and on a terminal gives it back as
# it was; it keeps no agent alive. advise computes as Young and Daly do, from what it is told or from
# the metrics of an agent.
# run: script timeout=120
import fcntl
import json
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from lib import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
ENV = program.environment(trial.JOB)
SAVES = """
import os, sys
f = open("model\\x1b[31m.pt", "wb", buffering=0)
f.write(b"\\x80\\x02" + os.urandom(3 << 20))
with open("two.pt", "wb", buffering=0) as g: os.link("two.pt", "c.pt"); g.write(b"\\x80\\x02" + os.urandom(3 << 20))
print("saved", flush=True)
sys.stdin.readline()
"""


def run(*arguments, status=0):
    done = subprocess.run([CTL, *arguments], env=ENV, capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == status, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


trial.expect("no agent runs" in run("top", "--once"), "no agent")
metrics = os.path.join(trial.fresh(), "m.prom")
process = program.start([sys.executable, "-c", SAVES], trial.fresh(),
                        program.environment(trial.JOB, "default", PORTUS_METRICS=metrics, PORTUS_SAMPLE=0), stdin=subprocess.PIPE)
trial.until_line(process, "saved")
said = run("top", "--once", "--interval", "0.2")
trial.expect("capturing" in said and "\x1b" not in said, f"top: {said}")
trial.expect(re.search(rf"^ +{process.pid} ", said, re.M), f"not the program: {said}")
trial.expect(re.search(r"saving +3\.00 MiB .*model\\x1b\[31m\.pt$", said, re.M), f"not the file: {said}")
trial.expect("not captured 1 " in said and "errors 0" in said and "store none" in said, f"top: {said}")

# On a terminal, until q; with the agent's end in the middle.
pid, fd = pty.fork()
if pid == 0:
    os.execve(CTL, [CTL, "top", "--interval", "0.05"], {**ENV, "TERM": "xterm"})
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
seen = b""


def until(words, seconds=20):
    global seen
    end = time.monotonic() + seconds
    while words not in seen and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                break
    trial.expect(words in seen, f"top does not show {words!r}: {seen[-2000:]!r}")


until(b"model\\x1b[31m.pt")
out = program.finish(process, 20)
trial.expect(out.status == 0, f"the program: {out.how()}", out)
trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 15), "top keeps the agent alive")
until(b"no agent runs")
os.write(fd, b"xq")
until(b"\x1b[?1049l")
trial.expect(os.waitpid(pid, 0)[1] == 0, "top: exit status")
trial.expect(seen.startswith(b"\x1b[?1049h") and b"\x1b[31m" not in seen.replace(b"\\x1b[31m", b""), "the screen")
pid, fd = pty.fork()
if pid == 0:
    os.execve(CTL, [CTL, "top"], {**ENV, "TERM": "xterm"})
seen = b""
until(b"no agent runs")
os.kill(pid, signal.SIGTERM)
until(b"\x1b[?25h\x1b[?1049l")
trial.expect(os.waitpid(pid, 0)[1] == 0, "top, told to end: exit status")


def advise(*arguments):
    return json.loads(run("advise", "--json", *arguments))


# The same sums, by another hand.
for stall, mtbf, drain, restart in ((10, 86400, 30, 600), (0.2, 3600, 1, 60), (100, 200, 0, 0), (1000, 100, 0, 0)):
    told = advise("--stall", str(stall), "--mtbf", str(mtbf), "--drain", str(drain), "--restart", str(restart))["advice"]
    young = math.sqrt(2 * stall * mtbf)
    daly = young * (1 + math.sqrt(stall / 2 / mtbf) / 3 + stall / 2 / mtbf / 9) - stall if stall < 2 * mtbf else mtbf
    best = max(daly, stall + drain)
    lost = min(1, stall / best + (best / 2 + drain + restart) / mtbf)
    for name, right in (("young", young), ("daly", daly), ("interval", best), ("lost", lost)):
        trial.expect(abs(told[name] - right) < 2e-3, f"advise {stall} {mtbf}: {name} is {told[name]}, not {right}")
# No interval near it is better, where failures are rare.
told = advise("--stall", "5", "--mtbf", "2d", "--restart", "10m")["advice"]
loss = lambda t: 5 / t + (t / 2 + 600) / 172800
trial.expect(all(told["lost"] <= loss(told["interval"] * f) + 1e-3 for f in (0.3, 0.5, 2, 3)), f"{told}")
trial.expect(advise("--stall", "1", "--mtbf", "1h", "--drain", "900")["advice"]["interval"] == 901, "below the drain's time")

said = run("advise", "--mtbf", "8h", "--plain", "1.34", metrics)
found = dict(re.findall(r"^(portus_\w+_total)(?:\{[^}]*\})? (\S+)$", open(metrics, encoding="utf-8").read(), re.M))
stall = float(found["portus_capture_seconds_total"]) + float(found["portus_wait_seconds_total"])
told = advise("--mtbf", "8h", metrics)["advice"]
trial.expect(found["portus_drained_files_total"] == "1" and abs(told["stall"] - stall) < 2e-3 and stall > 0, f"{told} {found}")
trial.expect(abs(told["drain"] - float(found["portus_drain_lag_seconds_total"])) < 2e-3, f"{told} {found}")
trial.expect(abs(advise("--mtbf", "8h", "--files", "3", metrics)["advice"]["stall"] - 3 * stall) < 5e-3, "of three files")
for words in ("measured 1 files", "Young    sqrt(2 * ", "advice   save every ", "plain    saves that stop"):
    trial.expect(words in said, f"advise does not say {words!r}: {said}")
wrong = os.path.join(trial.TOP, "wrong")
with open(wrong, "w", encoding="ascii") as f:
    f.write("portus_drained_files_total 3\nportus_wait_seconds_total{job=\"a\"} 1e90\n")
for arguments, words, status in ((["--stall", "1"], "--mtbf", 2), (["--mtbf", "1h"], "--stall", 2), (["--mtbf", "x"], "8h", 2),
                                 (["--mtbf", "-1"], "8h", 2), (["--mtbf", "nan"], "8h", 2), (["--mtbf", "1h", "/no/such"], "/no/such", 1),
                                 (["--mtbf", "1h", "/dev/null"], "nothing was captured", 1), (["--mtbf", "1h", wrong], "impossible numbers", 1)):
    trial.expect(words in run("advise", *arguments, status=status), f"advise {arguments}")
