# SPDX-License-Identifier: BSD-3-Clause
# cgroup.freeze in the middle of a save: of the program, of its agent, of both, thawed one after the other.
# Right: nothing is lost, no old byte comes over a new one; who opens a file of a frozen program gets it; where the agent alone is
# frozen the program goes on within a bound.
# run: script root timeout=300
import os
import subprocess
import time

from lib import agents, cgroup, program, summary, trial

OPS = [["open", "a.ckpt"], ["write", 8 << 20, 1], ["pause"], ["write", 5 << 20, 4], ["patch", 3 << 20, 5, 1 << 20], ["close"],
       ["rename", "a.ckpt", "b.ckpt"], ["open", "c.ckpt"], ["write", 8 << 20, 6], ["fsync"], ["close"]]
BOUND = 45  # 30 s without a sign of life, and the rest


def go_on(process):
    process.stdin.write(b"x"), process.stdin.flush()


try:
    groups = [cgroup.Group("program"), cgroup.Group("agent")]
except OSError as e:
    trial.skip(f"no cgroup of version 2 of our own: {e.strerror}")
with groups[0] as one, groups[1] as other:
    def begin():
        d = trial.fresh()
        process = trial.writer(OPS, d)
        trial.until_line(process, "pause")
        one.take(process.pid)
        other.take(*trial.an_agent())
        return d, process, time.monotonic()

    def end(what, d, process, began, bound, captured=2):
        out = program.finish(process, bound)
        took = time.monotonic() - began
        for group in (one, other):
            group.freeze(False)
        trial.expect(out.status == 0 and not out.late, f"{what}: {out.how()}", out)
        time.sleep(1)
        trial.whole(OPS, d, what, out)
        trial.expect((summary.captured(out.err) or 0) >= captured, f"{what}: not captured", out)
        print(f"{what}: {took:.1f} s, captured {summary.captured(out.err)} files", flush=True)

    # The program, right after it was told to go on; somebody else reads its file.
    d, process, began = begin()
    go_on(process)
    one.freeze(True)
    read = subprocess.run(["cat", f"{d}/{'a' if os.path.exists(f'{d}/a.ckpt') else 'b'}.ckpt"], timeout=BOUND, capture_output=True, check=False)
    trial.expect(len(read.stdout) >= 8 << 20, f"of a frozen program's file {len(read.stdout)} bytes were read")
    one.freeze(False)
    end("the program", d, process, began, 60, 1)

    # The agent: it neither answers nor waits for a disk.
    d, process, began = begin()
    other.freeze(True)
    go_on(process)
    end("the agent", d, process, began, BOUND, 1)
    agents.until(lambda: not agents.pids(trial.JOB), 10)

    # Both, then both again; then the program first.
    d, process, began = begin()
    go_on(process)
    for group in (one, other):
        group.freeze(True)
    time.sleep(3)
    for group in (other, one):
        group.freeze(False)
    end("both", d, process, began, 60)
    d, process, began = begin()
    pair = agents.pair(trial.JOB)
    go_on(process)
    for group in (other, one):
        group.freeze(True)
    time.sleep(1)
    one.freeze(False)
    time.sleep(4)
    other.freeze(False)
    end("both, the program thawed first", d, process, began, 60)
    trial.expect(agents.pair(trial.JOB) == pair, "an agent that was frozen for 5 s was not waited for")
    agents.kill(trial.JOB)
