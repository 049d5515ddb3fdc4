# SPDX-License-Identifier: BSD-3-Clause
# The agent is told to end (SIGTERM) in mid-save.
# Right: it drains, lets go and ends; the program writes the rest as usual.
# run: script timeout=90
import signal

from lib import agents, program, trial

ops = [["open", "a.ckpt"], ["write", 24 << 20, 1], ["pause"], ["write", 5 << 20, 4], ["patch", 10, 3, 5], ["close"],
       ["rename", "a.ckpt", "b.ckpt"], ["open", "c.ckpt"], ["write", 8 << 20, 6], ["close"]]
d = trial.fresh()
p = trial.writer(ops, d)
trial.until_line(p, "pause")
keeper, worker = trial.an_agent()
agents.kill(trial.JOB, signal.SIGTERM)
p.stdin.write(b"x"), p.stdin.flush()
out = program.finish(p, 40)
trial.expect(out.status == 0 and not out.late, out.how(), out)
trial.whole(ops, d, "after SIGTERM", out)
trial.expect(agents.until(lambda: not {keeper, worker} & set(agents.pids(trial.JOB)), 20), "it did not end", out)
