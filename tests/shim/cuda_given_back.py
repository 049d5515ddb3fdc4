# SPDX-License-Identifier: BSD-3-Clause
# A program keeps memory that was saved and is still shown from the ring (cuda_given), which is pinned, in a cgroup whose limit
# comes near.
# Right: at a later call of CUDA's the program lets go of the ring, which is given back; its memory and the next save are right.
# run: script root timeout=60
import os
import subprocess

from lib import agents, cgroup, program, summary, trial

FIRST = 17 << 20  # what stays of a ring (ring.c), and its first page


def ring():
    """Bytes of memory that the agent's ring has."""
    at = f"/proc/{trial.an_agent()[1]}/fd"
    return sum(os.stat(f"{at}/{fd}").st_blocks * 512 for fd in os.listdir(at) if "portus-ring" in os.readlink(f"{at}/{fd}"))


argv = [trial.test_program("cuda_given")]
plain, d = trial.fresh(), trial.fresh()
out = program.run(argv, plain, program.environment(trial.JOB), 30)
trial.expect(out.status == 0, f"plain: {out.how()}", out)
with cgroup.Memory() as group:
    process = program.start(group.joined(argv), d, program.environment(trial.JOB, "default", GIVEN_BACK=1), stdin=subprocess.PIPE)
    trial.until_line(process, "kept 1")
    trial.expect(agents.until(lambda: ring() > 64 << 20, 5), "the ring is small")
    before = ring()
    group.leave(24 << 20)  # of what could be given back not half
    trial.expect(agents.until(lambda: ring() <= FIRST, 20), f"{ring() >> 20} MiB of {before >> 20} are kept")
    after = ring()
    group.limit(4 << 30)
    process.stdin.write(b"x"), process.stdin.flush()
    out = program.finish(process, 30)
    trial.expect(out.status == 0, out.how(), out)
    trial.expect((summary.captured(out.err) or 0) >= 3, "too few files are captured", out)
    trial.same(plain, d, "files", out)
    print(f"ring {before >> 20} MiB, then {after >> 20}")
