# SPDX-License-Identifier: BSD-3-Clause
# Keeper, worker or both die in the middle of a save, or with all of it still to be drained.
# Right: the program replays the rest itself, ends as ever, and a later save is captured again,
# by a new agent where both are gone.
# run: script timeout=240
import signal

from lib import agents, program, summary, trial

ops = [["mkdir", "d"], ["open", "d/a.ckpt"], ["write", 8 << 20, 1], ["write", 77, 2], ["write", 6 << 20, 3],
       ["pause"], ["write", 5 << 20, 4], ["patch", 100, 5, 7], ["close"],
       ["pause"], ["rename", "d/a.ckpt", "d/b.ckpt"],
       ["open", "d/c.ckpt"], ["write", 8 << 20, 6], ["close"],
       ["open", "d/e.ckpt"], ["write", 8 << 20, 8], ["close"], ["rename", "d/e.ckpt", "d/f.ckpt"],
       ["open", "latest"], ["write", 9, 7], ["close"]]


def run(what, first, second, stopped):
    """Who is killed at the first and at the second pause, if there is one; stopped: nothing is drained before."""
    d = trial.fresh()
    p = trial.writer(ops, d)
    trial.until_line(p, "pause")
    old = trial.an_agent()
    if stopped:
        for pid in reversed(old):
            agents.kill_one(pid, signal.SIGSTOP)
    for who in first:
        agents.kill_one(old[who])
    p.stdin.write(b"x"), p.stdin.flush()
    trial.until_line(p, "pause")
    for who in second:
        agents.kill_one(agents.pair(trial.JOB)[who])
    p.stdin.write(b"x"), p.stdin.flush()
    out = program.finish(p, 60)
    trial.expect(out.status == 0 and not out.late, f"{what}: {out.how()}", out)
    trial.whole(ops, d, what, out)
    trial.expect((summary.captured(out.err) or 0) >= 2, f"{what}: the later save was not captured", out)
    new = trial.an_agent()
    trial.expect(new[0] != old[0] or 0 not in first + second, f"{what}: agent {new}, before {old}", out)


run("both in mid-save", (0, 1), (), False)
run("both, nothing drained", (0, 1), (), True)
run("both after close", (), (0, 1), False)
run("both, twice", (0, 1), (0, 1), False)
run("the keeper", (0,), (), False)
run("the worker", (1,), (1,), False)
