# SPDX-License-Identifier: BSD-3-Clause
# prog | tee, $(prog), pipes of a parent, a pseudo-terminal, a process group that is waited for.
# Right: they end when the program ends: nothing of ours holds its output, its terminal or its group.
# run: script timeout=120
import os
import subprocess
import time

from lib import agents, program, trial

SAVE = trial.test_program("write")
for what, command in (("a pipe", '"$0" | tee out'), ("a substitution", 'x=$("$0"); echo "$x"'),
                      ("standard error too", '"$0" 2>&1 >/dev/null | grep -v "^portus: "; true'),
                      ("a file, read at once", '"$0" > out; cat out'), ("in the background", '"$0" & wait; echo done'),
                      ("timeout", 'timeout 30 "$0"'), ("two at once", '"$0" | cat & (mkdir d; cd d; "$0" >/dev/null) ; wait'),
                      ("xargs", 'mkdir 1 2 3; ls | xargs -P3 -I@ sh -c "cd @; exec $0 >/dev/null"')):
    agents.kill(trial.JOB)
    out = trial.compared(["bash", "-c", command, SAVE], what, timeout=40, captures=1 if "2>&1" not in command else None)
    trial.expect(out.seconds < 20, f"{what}: took {out.seconds:.0f} s", out)
    trial.expect(agents.pids(trial.JOB) or "2>&1" in command, f"{what}: no agent", out)

# After the end, no process of the program's session or group, and nobody holds its pipe or directory.
d = trial.fresh()
agents.kill(trial.JOB)
p = program.start([SAVE], d, program.environment(trial.JOB, "all"))
program.finish(p, 30)
try:
    os.killpg(p.pid, 0)
    trial.fail("something of its process group is left")
except ProcessLookupError:
    pass
for pid in agents.pids(trial.JOB):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    trial.expect(int(fields[3]) != p.pid, "the agent is in the program's session")
    trial.expect(os.readlink(f"/proc/{pid}/cwd") == "/", "the agent's directory is not /")
    streams = {os.readlink(f"/proc/{pid}/fd/{n}") for n in "012" if os.path.exists(f"/proc/{pid}/fd/{n}")}
    trial.expect(streams <= {"/dev/null"}, f"the agent has {streams}")
    with open(f"/proc/{pid}/environ", "rb") as f:
        trial.expect(b"LD_PRELOAD=" not in f.read(), "the agent has LD_PRELOAD")

# A terminal is hung up when its program ends.
if os.path.exists("/usr/bin/script"):
    begin = time.monotonic()
    subprocess.run(["script", "-qec", SAVE, "/dev/null"], cwd=trial.fresh(), check=True, timeout=30,
                   env=program.environment(trial.JOB, "all"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    trial.expect(time.monotonic() - begin < 20, "the terminal was held")
