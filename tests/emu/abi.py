# SPDX-License-Identifier: BSD-3-Clause
"""The emulator's sources compile with the CUDA toolkit's own headers: functions, types and values are as CUDA has them."""
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")

if not os.path.exists(os.path.join(INCLUDE, "cuda.h")):
    print(f"no CUDA toolkit ({INCLUDE}/cuda.h)")
    sys.exit(77)
failed = []
for source in sorted(glob.glob(f"{HERE}/*/*.c") + glob.glob(f"{HERE}/*_test.c")):
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-DEMU_TOOLKIT", "-fsyntax-only", "-Wall", "-Werror"]
    done = subprocess.run(["gcc", *flags, f"-I{INCLUDE}", source], capture_output=True, text=True, check=False)
    if done.returncode:
        failed.append(source)
        print(done.stderr)
print(*failed)
sys.exit(bool(failed))
