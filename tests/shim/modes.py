# SPDX-License-Identifier: BSD-3-Clause
# PORTUS = off, report, require; wrong values; PORTUS_EXCLUDE; what is said and what is not.
# Right: off and report change nothing; require makes an error of what cannot be captured; a wrong
# value is named in one line and the program runs on.
# run: script timeout=120
import os
import shutil
import tempfile

from lib import agents, program, summary, trial

SAVE = [trial.test_program("write")]


def run(cwd=None, mode="default", argv=SAVE, **more):
    return program.run(argv, cwd or trial.fresh(), program.environment(trial.JOB, mode, **more), 30)


plain_directory = trial.fresh()
plain = run(plain_directory, None)

out = run(PORTUS="off", PORTUS_SUMMARY=0)
trial.expect(out.err == plain.err and out.out == plain.out and out.status == 0, "off: not as without", out)
trial.expect(not agents.pids(trial.JOB), "off: an agent was started")

d = trial.fresh()
out = run(d, PORTUS="report")
trial.expect(out.out == plain.out and out.status == 0, "report: " + out.how(), out)
trial.same(plain_directory, d, "report", out)
trial.expect(not agents.pids(trial.JOB), "report: an agent was started", out)
trial.expect(b"would" in out.err and not summary.captured(out.err), "report does not say what would be", out)

out = run(PORTUS="require")
trial.expect(out.status == 0 and (summary.captured(out.err) or 0) >= 1, "require: " + out.how(), out)
with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
    out = run(memory, PORTUS="require")
    trial.expect(out.status != 0 and summary.lines(out.err), "require on tmpfs: " + out.how(), out)
    os.mkdir(memory + "/again")
    out = run(memory + "/again", "all")
    trial.expect(out.status == 0 and out.out == plain.out, "tmpfs: " + out.how(), out)
    trial.expect(not summary.captured(out.err), "captured on tmpfs", out)
    trial.same(plain_directory, memory + "/again", "tmpfs", out)

agents.kill(trial.JOB)
alone = trial.fresh()  # the library without its agent
shutil.copy(program.SHIM, alone)
no_agent = {"LD_PRELOAD": os.path.join(alone, os.path.basename(program.SHIM))}
out = run(PORTUS="require", **no_agent)
trial.expect(out.status != 0 and summary.lines(out.err), "require without an agent: " + out.how(), out)
out = run(mode="all", **no_agent)
trial.expect(out.status == 0 and out.out == plain.out, "without an agent: " + out.how(), out)
trial.expect(len(summary.lines(out.err)) >= 1, "without an agent: no word about it", out)

for wrong, words in (({"PORTUS": "maybe"}, (b"PORTUS=maybe", b"report")),
                     ({"PORTUS_CLOSE": "never"}, (b"PORTUS_CLOSE", b"never", b"drained")),
                     ({"PORTUS_MIN_WRITE": "much"}, (b"PORTUS_MIN_WRITE", b"much")),
                     ({"PORTUS_SHARED": "7"}, (b"PORTUS_SHARED", b"7")),
                     ({"PORTUS_MACTH": "*"}, (b"PORTUS_MACTH",))):
    out = run(**wrong)
    lines = [line for line in summary.lines(out.err) if words[0] in line]
    trial.expect(out.status == 0 and out.out == plain.out, f"{wrong}: {out.how()}", out)
    trial.expect(len(lines) == 1 and all(w in lines[0] for w in words), f"{wrong}: said {lines}", out)

out = run(PORTUS_EXCLUDE="*.ckpt", mode="all")
trial.expect(not summary.captured(out.err) and out.out == plain.out, "EXCLUDE: captured", out)
out = run(PORTUS_MATCH="*.nothing")
trial.expect(not summary.captured(out.err), "MATCH replaces the default, but it was captured", out)
out = run(PORTUS_MATCH="+:*.nothing")
trial.expect(summary.captured(out.err), "MATCH with +: adds, but nothing was captured", out)
out = run(PORTUS_MIN_WRITE="1G")
trial.expect(not summary.captured(out.err), "MIN_WRITE 1G: captured", out)
d = trial.fresh()
out = run(d, "all", [trial.test_program("rename")], PORTUS_SAMPLE=2)  # 51 saves
trial.expect(20 <= (summary.captured(out.err) or 0) <= 35, "SAMPLE=2: not every other save was captured", out)
trial.expect(out.status == 0, "SAMPLE=2: " + out.how(), out)

agents.kill(trial.JOB)
log = os.path.join(trial.fresh(), "log")
out = run(PORTUS_LOG="debug:" + log, PORTUS_SUMMARY=0)
trial.expect(out.err == plain.err and os.path.getsize(log) > 0, "LOG=debug:FILE", out)
