# SPDX-License-Identifier: BSD-3-Clause
# The agent may open no descriptor more, between two files of a save: what the program sends it is lost on the way.
# Right: nothing else is; the agent ends, and the program, or another agent, writes the rest.
# run: script timeout=120
import resource

from lib import program, trial

ops = trial.paper.program(2)
at = next(i for i, op in enumerate(ops) if op[0] == "open" and op[1] == "s0/optimizer.ckpt")
ops.insert(at, ["pause"])
for mode in ("default", "all", "drained"):
    directory = trial.fresh()
    process = trial.writer(ops, directory, mode)
    trial.until_line(process, "pause")
    for pid in trial.an_agent():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
    process.stdin.write(b"\n")
    process.stdin.flush()
    out = program.finish(process, 60)
    trial.expect(out.status == 0, f"{mode}: {out.how()}", out)
    trial.whole(ops, directory, mode, out)
