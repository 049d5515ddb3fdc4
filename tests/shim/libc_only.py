# SPDX-License-Identifier: BSD-3-Clause
# What goes into the Python wheel: the programs built without any library but libc's.
# Right: they build, say who they are, and need nothing else.
# run: script timeout=300
import os
import re
import subprocess

from lib import program, trial

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.path.join(os.path.relpath(program.BUILD, TOP), "tests/libc_only")
make = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
built = subprocess.run(["make", "-s", "-C", TOP, f"B={B}", "LIBC_ONLY=yes"], env=make, capture_output=True, text=True, check=False)
trial.expect(built.returncode == 0, built.stdout + built.stderr)
for name in ("portusctl", "portus-agent", "libportus_shim.so"):
    path = os.path.join(TOP, B, name)
    needs = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    others = [line for line in needs.splitlines() if "NEEDED" in line and not re.search(r"\[lib[cm]\.so\.6\]", line)]
    trial.expect(not others, f"{name}: {others}")
said = program.run([os.path.join(TOP, B, "portusctl"), "doctor", "--help"], trial.fresh(), program.environment(trial.JOB), 10)
trial.expect(said.status == 0, said.how(), said)
