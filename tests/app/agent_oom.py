# SPDX-License-Identifier: BSD-3-Clause
# The kernel kills the agent for want of memory: it alone is in a cgroup whose memory.max becomes less than it has.
# Right: the program ends as ever, every file is whole, and the next save finds another agent.
# run: script root timeout=200
import time

from lib import agents, cgroup, program, summary, trial

OPS = [["open", "a.ckpt"], ["write", 12 << 20, 1], ["pause"], ["write", 9 << 20, 4], ["patch", 3 << 20, 5, 1 << 20], ["close"],
       ["rename", "a.ckpt", "b.ckpt"], ["open", "c.ckpt"], ["write", 8 << 20, 6], ["fsync"], ["close"]]
try:
    group = cgroup.Group("agent", memory_max="max")
except OSError as e:
    trial.skip(f"no memory cgroup of version 2 of our own: {e.strerror}")
with group:
    for whole_group in (0, 1):
        group.write("memory.oom.group", whole_group)
        group.write("memory.max", "max")
        killed = group.counts("memory.events")["oom_kill"]
        d = trial.fresh()
        process = trial.writer(OPS, d)
        trial.until_line(process, "pause")
        group.take(*trial.an_agent())
        process.stdin.write(b"x"), process.stdin.flush()
        group.write("memory.max", 4096)
        out = program.finish(process, 90)
        what = f"memory.oom.group {whole_group}"
        killed = group.counts("memory.events")["oom_kill"] - killed
        trial.expect(killed > 0, f"{what}: nobody was killed: {group.read('memory.events')}")
        trial.expect(out.status == 0 and not out.late, f"{what}: {out.how()}", out)
        group.write("memory.max", "max")
        time.sleep(1)
        trial.whole(OPS, d, what, out)
        agents.kill(trial.JOB)
        agents.until(lambda: not agents.pids(trial.JOB), 10)
        out = trial.compared([trial.test_program("write")], f"{what}: the next save", captures=int(program.SLOW == 1))
        print(f"{what}: {killed} processes killed", flush=True)
        agents.kill(trial.JOB)
