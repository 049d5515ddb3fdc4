# SPDX-License-Identifier: BSD-3-Clause
# The agent's worker is killed again and again during saves, while readers read.
# Right: its keeper puts another in its place; all bytes are right; the program notices nothing.
# run: script timeout=120
import subprocess
import time

from lib import agents, program, summary, trial

ops = []
for i in range(40):
    ops += [["open", "new.ckpt"], ["write", 9 << 20, i], ["write", 1000, i + 1], ["write", 3 << 20, i + 2],
            ["patch", 55, i, 0], ["close"], ["rename", "new.ckpt", f"{i % 8}.ckpt"]]
    ops += [["open", f"direct{i % 3}.ckpt"], ["write", 4 << 20, i + 5], ["close"]]
d = trial.fresh()
p = trial.writer(ops, d)
keeper, worker = trial.an_agent()
kills = 0
while p.poll() is None:
    worker = agents.until(lambda: agents.pair(trial.JOB)[1], 2)
    if worker and p.poll() is None:
        kills += agents.kill_one(worker)
    if kills % 3 == 2:
        subprocess.run(["sh", "-c", "cat *.ckpt >/dev/null 2>&1"], cwd=d, check=False)
    time.sleep(0.08)
out = program.finish(p, 60)
last_keeper = agents.pair(trial.JOB)[0]  # before the agent ends, being of no use
trial.expect(out.status == 0, out.how(), out)
trial.expect(kills >= 3, f"only {kills} kills", out)
trial.expect(last_keeper == keeper, "another keeper", out)
trial.whole(ops, d, f"after {kills} kills", out)
trial.expect((summary.captured(out.err) or 0) >= 40, "captured too few files", out)
print(f"{kills} workers killed")
