# SPDX-License-Identifier: BSD-3-Clause
# What reads text and packets of others, given anything, for a moment: see tests/fuzz/parsers_fuzz.c.
# Right: nothing is found by ASan, UBSan or an assertion.
# run: script timeout=200
import os
import shutil
import subprocess

from lib import trial

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")

if not shutil.which("clang"):
    trial.skip("not installed: clang")
probe = os.path.join(trial.TOP, "probe.c")
with open(probe, "w", encoding="ascii") as f:
    f.write("#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return 0; }\n")
if subprocess.run(["clang", "-fsanitize=fuzzer,address,undefined", probe, "-o", probe + ".out"], capture_output=True, check=False).returncode:
    trial.skip("clang has no libFuzzer here")
done = subprocess.run(["make", "-s", "fuzz-parsers", f"B={os.path.join(trial.TOP, 'b')}", "F=-max_total_time=15 -print_final_stats=1"],
                      cwd=TOP, capture_output=True, text=True, timeout=190, check=False)
trial.expect(done.returncode == 0, f"make fuzz-parsers: {done.stdout[-2000:]}{done.stderr[-6000:]}")
runs = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units:")]
trial.expect(runs and runs[0] > 500, f"too few: {done.stderr[-2000:]}")
print(f"{runs[0]} inputs")
