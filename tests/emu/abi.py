# SPDX-License-Identifier: BSD-3-Clause
"""The emulator's sources compile with CUDA's own headers, of a toolkit or of PyTorch's wheels: functions, types and
values are as CUDA has them, of 12 or 13."""
import glob
import os
import re
import subprocess
import sys

from lib import program

HERE = os.path.dirname(os.path.abspath(__file__))
VENVS = {os.path.dirname(os.path.dirname(p)) for p in (program.python(), program.cuda_python())}
PLACES = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"),
          *(p for venv in sorted(VENVS) for name in ("cu13", "cuda_runtime")
            for p in glob.glob(f"{venv}/lib/python*/site-packages/nvidia/{name}/include"))]


def version(include):
    """CUDA_VERSION, 12080 say, or 0 where it is not."""
    try:
        with open(os.path.join(include, "cuda.h"), encoding="utf-8") as f:
            return int(re.search(r"define CUDA_VERSION (\d+)", f.read()).group(1))
    except FileNotFoundError:
        return 0


found = {version(include): include for include in PLACES}
found.pop(0, None)
if not found:
    print(f"no CUDA headers in {', '.join(PLACES)}")
    sys.exit(77)
failed = []
for number, include in found.items():
    for source in sorted(glob.glob(f"{HERE}/*/*.c") + glob.glob(f"{HERE}/*_test.c")):
        flags = ["-std=gnu11", "-D_GNU_SOURCE", "-DEMU_TOOLKIT", "-fsyntax-only", "-Wall", "-Werror", "-Wno-missing-braces"]
        done = subprocess.run(["gcc", *flags, f"-DEMU_RUNTIME={number // 1000}", f"-I{include}", source],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{source} with {number}")
            print(done.stderr)
print(*found, *failed)
sys.exit(bool(failed))
