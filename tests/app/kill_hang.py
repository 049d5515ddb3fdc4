# SPDX-License-Identifier: BSD-3-Clause
# The agent does not die but stops (SIGSTOP), in mid-save: worker, or keeper and worker.
# Right: the program does not hang for ever: it ends its agent, writes the rest, goes on.
# run: script timeout=300
import signal
import time

from lib import agents, program, trial

ops = [["open", "a.ckpt"], ["write", 8 << 20, 1], ["pause"], ["write", 5 << 20, 4], ["close"],
       ["rename", "a.ckpt", "b.ckpt"], ["open", "c.ckpt"], ["write", 8 << 20, 6], ["fsync"], ["close"]]
for who in ((1,), (0, 1)):
    d = trial.fresh()
    p = trial.writer(ops, d)
    trial.until_line(p, "pause")
    pids = trial.an_agent()
    for i in reversed(who):
        agents.kill_one(pids[i], signal.SIGSTOP)
    begin = time.monotonic()
    p.stdin.write(b"x"), p.stdin.flush()
    out = program.finish(p, 100)
    trial.expect(out.status == 0 and not out.late, f"{who} stopped: {out.how()}", out)
    for pid in pids:
        agents.kill_one(pid, signal.SIGCONT)
    time.sleep(0.5)
    trial.whole(ops, d, f"{who} stopped", out)
    print(f"{who} stopped: {time.monotonic() - begin:.1f} s")
    agents.kill(trial.JOB)
