# SPDX-License-Identifier: BSD-3-Clause
# System calls of a save that fail, one at a time, in the program and in the agent: some of them, the same ones each time.
# Right: the program sees what it would see plainly, and loses nothing without being told. `make check-errors` tries all.
# run: script timeout=300
import os
import sys

from lib import program, trial

FAULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults/faults")
out = program.run([sys.executable, FAULTS, "--sample", "60", "--dir", trial.TOP], trial.TOP,
                  program.environment(trial.JOB, B=program.BUILD), 280)
if b"ptrace: " in out.err:
    trial.skip("no process may be traced here")
trial.expect(out.status == 0, "a fault was seen that must not be, or a byte was lost", out)
print(out.out.decode())
