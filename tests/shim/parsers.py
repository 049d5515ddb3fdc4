# SPDX-License-Identifier: BSD-3-Clause
# What reads text and packets of others, what drains rings, and what speaks to a store, given anything, for a moment: see
# tests/fuzz/parsers_fuzz.c, ring_fuzz.c and carrier_fuzz.c.
# Right: nothing is found by ASan, UBSan or an assertion.
# run: script timeout=400
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
for target, least in (("fuzz-parsers", 500), ("fuzz-ring", 50), ("fuzz-carrier", 50)):
    done = subprocess.run(["make", "-s", "-j2", target, f"B={os.path.join(trial.TOP, 'b')}", "F=-max_total_time=10 -print_final_stats=1"],
                          cwd=TOP, capture_output=True, text=True, timeout=190, check=False)
    trial.expect(done.returncode == 0, f"make {target}: {done.stdout[-2000:]}{done.stderr[-6000:]}")
    runs = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units:")]
    trial.expect(runs and runs[0] > least, f"{target}: too few: {done.stderr[-2000:]}")
    print(f"{target}: {runs[0]} inputs")
