# SPDX-License-Identifier: BSD-3-Clause
# PORTUS_LOG, PORTUS_TRACE and PORTUS_METRICS are on a FUSE that does not answer for a while (its daemon is stopped).
# Right: the agent and portusd, which write there, go on: programs of the job that do not are captured as before, end within
# seconds, and have versions; portusctl answers. When the FUSE answers again, the lines are there.
# run: script root timeout=120
import os
import subprocess
import time

from lib import agents, program, summary, trial
from lib.silent import mount, silent

CTL = os.path.join(program.BUILD, "portusctl")
POOL = os.path.join(trial.TOP, "pool")
BOUND = 20
SAVE = [["mkdir", "s"], ["open", "s/a.ckpt"], ["write", 8 << 20, 1], ["fsync"], ["close"], ["rename", "s/a.ckpt", "s/b.ckpt"],
        ["open", "s/c.ckpt"], ["write", 4 << 20, 2], ["close"]]
SAVES = 8  # longer than metrics.c's EVERY_NS


def text(name):
    with open(os.path.join(mount, name), "rb") as f:
        return f.read()


def ask(*words):
    out = program.run([CTL, *words], trial.TOP, program.environment(trial.JOB, PORTUS_STORE=POOL), 10)
    trial.expect(out.status == 0 and not out.late, f"portusctl {words[0]}: {out.how()}", out)
    return out.out


subprocess.run([CTL, "pool", "create", POOL, "256M"], check=True, stdout=subprocess.DEVNULL)
there = {"PORTUS_LOG": f"debug:{mount}/log", "PORTUS_TRACE": f"{mount}/trace", "PORTUS_METRICS": f"{mount}/metrics",
         "PORTUS_STORE": POOL}
first = trial.writer([*SAVE, ["pause"]], trial.fresh(), **there)
trial.until_line(first, "pause")
trial.expect(agents.until(lambda: os.path.exists(f"{mount}/metrics"), 10), "no metrics")
before = {name: text(name) for name in ("log", "trace", "metrics")}

silent(True)
for i in range(SAVES):
    d = trial.fresh()
    process = trial.writer(SAVE, d, PORTUS_STORE=POOL)
    out = program.finish(process, BOUND)
    trial.expect(out.status == 0, f"save {i}: {out.how()}", out)
    trial.whole(SAVE, d, f"save {i}", out)
    trial.expect((summary.captured(out.err) or 0) >= 2, f"save {i} is not captured", out)
    trial.expect(out.seconds < 5 * program.SLOW, f"save {i}: {out.seconds:.1f} s")
    ask("status")
    trial.expect(agents.until(lambda: d.encode() in ask("ls"), BOUND), f"save {i}: no version", out)
    time.sleep(1)
    if i == SAVES // 2:
        worker = trial.an_agent()[1]
        agents.kill_one(worker)
        trial.expect(agents.until(lambda: agents.pair(trial.JOB)[1] not in (None, worker), 10), "no new worker")
silent(False)
first.stdin.write(b"x"), first.stdin.flush()
out = program.finish(first, BOUND)
trial.expect(out.status == 0, f"the first program: {out.how()}", out)
trial.end_stores(POOL)
log, trace = (text(name)[len(before[name]):] for name in ("log", "trace"))
trial.expect(b"another takes over" in log, f"the new worker says nothing: {log}")
commits, drains = log.count(b"portusd: commit "), trace.count(b'"drain"')
# What the worker had not written when it was killed is lost.
trial.expect(commits >= 2 * SAVES and drains >= SAVES // 2, f"{commits} commits, {drains} drains")
trial.expect(text("metrics") not in (b"", before["metrics"]), "the metrics are those of before")
print(f"{commits} commits, {drains} drains")
