# SPDX-License-Identifier: BSD-3-Clause
# Readers and children that the library cannot reach: static programs, musl, 32-bit, set-user-ID.
# Right: they see whole files, and run untouched.
# run: script timeout=120
import os
import shutil
import subprocess

from lib import program, trial

READER = """
#include <stdio.h>
#include <fcntl.h>
#include <unistd.h>
int main(int n, char **v) {
    static unsigned char b[65536]; unsigned long long h = 14695981039346656037ull, t = 0; long k;
    int fd = open(v[1], O_RDONLY); if (fd < 0) return 2;
    while ((k = read(fd, b, sizeof b)) > 0) { t += k; for (long i = 0; i < k; i++) h = (h ^ b[i]) * 1099511628211ull; }
    return printf("%llu %016llx\\n", t, h) < 0;
}
"""
top, ran = trial.fresh(), []
with open(f"{top}/reader.c", "w", encoding="ascii") as f:
    f.write(READER)
compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
for kind, flags in (("static", ["-static"]), ("32-bit", ["-m32", "-static"]), ("musl", [])):
    cc = shutil.which("musl-gcc") if kind == "musl" else compiler
    if cc is None:
        continue
    exe = f"{top}/{kind}"
    if subprocess.run([cc, "-O1", "-o", exe, f"{top}/reader.c", *flags], capture_output=True, check=False).returncode:
        continue
    ran.append(kind)
    # a child of the shimmed program's shell (it has LD_PRELOAD, to no effect), and one without
    for prefix in ("", "env -u LD_PRELOAD "):
        save = trial.test_program("write")
        out = trial.compared(["sh", "-c", f'"$0" && {prefix}{exe} a.ckpt', save], f"{kind} {prefix}", captures=1)
        trial.expect(out.status == 0, f"{kind}: {out.how()}", out)
setuid = shutil.which("su") or shutil.which("mount")
if setuid:
    trial.compared(["sh", "-c", f'"$0"; {setuid} --version >/dev/null', trial.test_program("write")], "set-user-ID child", captures=1)
if not ran:
    trial.skip("no compiler that makes static programs")
print(ran)
