# SPDX-License-Identifier: BSD-3-Clause
# scripts/device-check on the emulated GPU: it builds by a compiler alone, all is right, and its report can be read.
# Where there is no GPU it says so.
# run: script by=check-cuda timeout=900
import json
import os
import shutil
import subprocess

from lib import program, trial

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = ["sh", os.path.join(ROOT, "scripts/device-check")]


def check(*options, path=os.environ["PATH"]):
    env = {**os.environ, "B": os.path.join(trial.TOP, "build"), "PATH": path}
    return subprocess.run([*SCRIPT, *options], cwd=trial.TOP, env=env, capture_output=True, text=True, check=False)


def expect(good, what, done):
    trial.expect(good, f"{what}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


if shutil.which("nvidia-smi") is None:
    done = check()
    expect(done.returncode == 69 and "no nvidia-smi here" in done.stderr, "no GPU", done)
done = check("--what")
expect(done.returncode == 2, "a wrong option", done)

done = check("--emulator", "--quick", "--python", program.cuda_python(), "report.json")
expect(done.returncode == 0, "on the emulator", done)
with open(os.path.join(trial.TOP, "report.json")) as f:
    report = json.load(f)
tests = {test["name"]: test for test in report["tests"]}
expect(report["emulated"] and report["passed"] == len(tests) - report["skipped"] > 20, "the report", done)
expect({"saves-blocks", "saves-segments", "saves-pools", "errors", "cuda_write-auto", "schedules-auto"} <= tests.keys(), "what it ran", done)
expect(all(tests[f"saves-{kind}"]["no_cpu_copied_percent"] > 30 for kind in ("blocks", "segments", "pools")), "promises", done)
expect(tests["saves-copied"]["no_cpu_copied_percent"] == 0, "promises that are off", done)
for way in "plain", "portus", "portus_copied":
    expect(report["stall_seconds_per_gib"][way]["save"] > 0, "stall", done)
