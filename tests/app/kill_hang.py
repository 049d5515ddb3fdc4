# SPDX-License-Identifier: BSD-3-Clause
# The agent does not die but stops (SIGSTOP), in mid-save: worker, or keeper and worker.
# Right: the program does not hang for ever: it ends its agent, writes the rest, goes on.
# Nor does one that finds a stopped agent.
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

# It has no client any more, or not yet.
many = [[op, f"d{i}"] for i in range(40) for op in ("mkdir", "rmdir")]
save = [["open", "b.ckpt"], ["write", 8 << 20, 2], ["close"]]
for who in ((0,), (1,), (0, 1)):
    program.finish(trial.writer(save, trial.fresh()), 60)
    pids, d = trial.an_agent(), trial.fresh()
    for i in reversed(who):
        agents.kill_one(pids[i], signal.SIGSTOP)
    begin = time.monotonic()
    out = program.finish(trial.writer(many + save, d), 100)
    took = time.monotonic() - begin
    trial.expect(out.status == 0 and not out.late, f"{who} stopped before: {out.how()}", out)
    trial.expect(took < 20, f"{who} stopped before: it takes {took:.0f} s", out)
    trial.whole(many + save, d, f"{who} stopped before", out)
    print(f"{who} stopped before: {took:.1f} s")
    agents.kill(trial.JOB)
