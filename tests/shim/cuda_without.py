# SPDX-License-Identifier: BSD-3-Clause
# The shim as it is without one line of cuda_hooks.def, each in turn.
# Right: it is slower where that line was the way, and never wrong.
# run: script by=check-cuda slow timeout=900
import os
import re
import subprocess

from lib import program, summary, trial

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.path.relpath(program.BUILD, TOP)
CALLS = trial.test_program("cuda_calls")
ARGV = [[CALLS], *[[trial.test_program(f"cuda_{name}")] for name in ("asked", "order", "errors", "reuse")],
        [os.path.join(program.BUILD, "tests/emu/schedule"), "1001", "2"]]


def without(name):
    """The shim that has all lines but that one, below the build directory's parent."""
    return os.path.join(B, "tests/without", name, "libportus_shim.so")


def run(argv, shim):
    directory = trial.fresh()
    env = program.environment(trial.JOB, "default", PORTUS_AGENT=os.path.join(program.BUILD, "portus-agent"))
    outcome = program.run(argv, directory, {**env, "LD_PRELOAD": shim}, 60)
    trial.expect(outcome.status == 0, f"{shim}: {argv}: {outcome.how()}", outcome)
    return outcome, directory


with open(os.path.join(TOP, "preload/cuda_hooks.def"), encoding="utf-8") as f:
    lines = re.findall(r"^CUDA_([A-Z]*)\((\w+)(?:, (\w+))?", f.read(), re.M)
make = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
built = subprocess.run(["make", "-s", "-C", TOP, f"B={B}", *[without(name) for _, name, _ in lines]],
                       env=make, capture_output=True, text=True, check=False)
trial.expect(built.returncode == 0, built.stdout + built.stderr)

plain = [run(argv, "") for argv in ARGV]
for kind, name, library in lines:
    shim, shares = os.path.join(TOP, without(name)), []
    for argv, (wanted, before) in zip(ARGV, plain):
        outcome, directory = run(argv, shim)
        trial.expect(outcome.out == wanted.out, f"without {name}: {argv}: other output", outcome)
        trial.same(before, directory, f"without {name}: {argv}", outcome)
        shares.append(summary.referred(outcome.err))
    print(f"without {name}: {shares}")
    # That it makes a difference; behind a function of the runtime those of the driver are still seen.
    if kind == "COPY" and library == "DRIVER":
        alone = [summary.referred(run([CALLS, name], s)[0].err) for s in (program.SHIM, shim)]
        trial.expect(alone[0] > 30 and alone[1] == 0, f"{name} alone, with its line and without: {alone}")
