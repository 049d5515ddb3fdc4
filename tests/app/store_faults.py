# SPDX-License-Identifier: BSD-3-Clause
# System calls that fail in portusd, in the agent and in portusctl, during saves with a store, in every command on a pool, and while
# portusd serves one: some of them, the same ones each time. `make check-errors` tries all.
# Right: the program sees what it sees without, there is an end, nothing that was committed is lost, and the pool opens and is whole.
# run: script timeout=300
import os
import sys

from lib import program, trial

FAULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults/faults")
out = program.run([sys.executable, FAULTS, "--store", "--sample", "40", "--dir", trial.TOP], trial.TOP,
                  program.environment(trial.JOB, B=program.BUILD), 280)
# Met by chance once: the agent said nothing, tried for ever, and never ended.
if out.status == 0:
    out = program.run([sys.executable, FAULTS, "--store", "--modes", "relaxed", "--dir", trial.TOP, "w:-1:socket:0:1:24+"],
                      trial.TOP, program.environment(trial.JOB, B=program.BUILD), 60)
if b"ptrace: " in out.err:
    trial.skip("no process may be traced here")
trial.expect(out.status == 0, "a fault was seen that must not be, or a version was lost", out)
print(out.out.decode())
