# SPDX-License-Identifier: BSD-3-Clause
# Random programs of tests/fuzz, the same ones each time; once more with an agent that is mostly stopped.
# Right: each does as without the shim. `make fuzz-calls` runs others.
# run: script timeout=300
import os
import sys

from lib import program, trial

FUZZ = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz/fuzz")
for arguments in (["--seeds", "1-40"], ["--seeds", "101-112", "--modes", "all", "--slow"]):
    out = program.run([sys.executable, FUZZ, *arguments, "--dir", trial.TOP], trial.TOP,
                      program.environment(trial.JOB, B=program.BUILD), 280)
    trial.expect(out.status == 0, "a random program differs", out)
    print(out.out.decode())
