# SPDX-License-Identifier: BSD-3-Clause
# What the library needs and exports.
# Right: no symbol newer than glibc 2.28, none that was outside libc.so.6 then unless it may be missing, exported is what
# hooks.def lists and nothing else, and each hook is called by some test.
# run: script
import glob
import os
import re
import subprocess

from lib import program, trial

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARIES = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# Called by programs of another time or by torch, not by the programs in tests/shim.
ELSEWHERE = re.compile(r"__[lf]?xstat(at)?(64)?|mz_zip_writer_add_mem_ex_v2|_Exit|\w+64(v2)?|fts64_\w+|\w+_2")


def run(*argv):
    return subprocess.run(argv, capture_output=True, check=True, text=True).stdout


table = run("objdump", "-T", program.SHIM)
newer = [line for line in table.splitlines()
         if (m := re.search(r"GLIBC_(\d+)\.(\d+)", line)) and (int(m[1]), int(m[2])) > (2, 28)]
trial.expect(not newer, "newer than glibc 2.28:\n" + "\n".join(newer))

# An older libc.so.6 has not these: elsewhere they are in libraries that a program may not have.
moved = re.compile(r"^[0-9a-f]+ +(\w*) .*UND.* (dl[a-z]\w+|pthread_(create|testcancel|attr_setstacksize))$", re.M)
strong = [m[2] for m in moved.finditer(table) if m[1] != "w"]
trial.expect(not strong, f"needed from libdl or libpthread before glibc 2.34: {strong}")

needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", program.SHIM)))
trial.expect(needed <= LIBRARIES, f"needs {needed - LIBRARIES}")

with open(f"{ROOT}/preload/hooks.def", encoding="utf-8") as f:
    hooks = re.findall(r"^HOOK\([^,]+, (\w+),", f.read(), re.M)
with open(f"{ROOT}/preload/cuda_hooks.def", encoding="utf-8") as f:
    cuda = re.findall(r"^CUDA_[A-Z]+\((\w+),", f.read(), re.M)
exported = {line.split()[-1] for line in table.splitlines()
            if re.match(r"[0-9a-f]{8,} [gwu]", line) and "*UND*" not in line and "*ABS*" not in line}
trial.expect(len(hooks) == len(set(hooks)), "hooks.def names a function twice")
listed = set(hooks) | set(cuda)
trial.expect(exported == listed, f"exported but in no list: {sorted(exported - listed)}; "
             f"in a list but not exported: {sorted(listed - exported)}")

stack = re.search(r"STACK.*\n.*flags (\S+)", run("objdump", "-p", program.SHIM))
trial.expect(stack and "x" not in stack[1], "its stack is executable")
trial.expect("TEXTREL" not in run("objdump", "-p", program.SHIM), "it has text relocations")

called = set()
for path in glob.glob(f"{program.BUILD}/tests/shim/*"):
    if os.access(path, os.X_OK) and os.path.isfile(path):
        called |= {name.split("@")[0] for name in run("nm", "-D", "--undefined-only", path).split()}
untested = [h for h in hooks if h not in called and not ELSEWHERE.fullmatch(h)]
trial.expect(not untested, f"no test program calls {untested}")
print(f"{len(hooks)} hooks")
