# SPDX-License-Identifier: BSD-3-Clause
# Programs built in other ways: with ASan, TSan, UBSan and LSan by gcc and clang, their runtime inside or as a library; and a
# plug-in that is loaded with RTLD_DEEPBIND, so that what it calls is libc's.
# Right: as plainly, captured where the compiler's runtime lets the shim see the calls, and no finding of a sanitizer.
# run: script timeout=600
import os
import shutil
import subprocess

from lib import agents, program, summary, trial

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WHOLE = os.environ.get("CHECK") == "check-zoo"
# What each is given: threads, stdio, forks, a child by posix_spawn, faults in the source, C++ streams.
PROGRAMS = "write threads_files stdio fork efault spawn rename ofstream" if WHOLE else "write"
NOISE = {"ASAN_OPTIONS": "detect_leaks=0:handle_segv=1", "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}


def build(name, words, source):
    exe = os.path.join(trial.TOP, name)
    compiler = words[0]
    if source.endswith(".cc"):
        compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
    std = ["-std=c++17"] if source.endswith(".cc") else ["-std=gnu11"]
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    made = subprocess.run([compiler, *std, "-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-w", *words[1:], "-o", exe, source],
                          capture_output=True, text=True, check=False, env=env)
    return exe if made.returncode == 0 else print(f"{' '.join(words)}: cannot be built: {made.stderr.strip().splitlines()[:1]}")


def alike(what, argv, captures, mode, **more):
    """As trial.compared, and standard error, where sanitizers speak."""
    a, b = trial.fresh(), trial.fresh()
    plain = program.run(argv, a, program.environment(trial.JOB, **{k: v for k, v in more.items() if k != "LD_PRELOAD"}), 120)
    out = program.run(argv, b, program.environment(trial.JOB, mode, **more), 120)
    trial.expect(plain.status == 0, f"{what}: plainly: {plain.how()}", plain)
    trial.expect(out.status == 0 and out.out == plain.out, f"{what}, {mode}: {out.how()}", out)
    trial.expect(summary.without(out.err) == plain.err, f"{what}, {mode}: standard error", out)
    trial.same(a, b, f"{what}, {mode}", out)
    count = summary.captured(out.err) or 0
    trial.expect(count >= captures, f"{what}, {mode}: captured {count} files, not {captures}", out)
    return out


SANITIZED = [["gcc", "-fsanitize=address", "-static-libasan"], ["gcc", "-fsanitize=thread", "-static-libtsan"],
             ["gcc", "-fsanitize=undefined"], ["gcc", "-fsanitize=address"], ["gcc", "-fsanitize=thread"],
             ["clang", "-fsanitize=address"], ["clang", "-fsanitize=thread"], ["clang", "-fsanitize=undefined"]]
ran = []
for words in SANITIZED if WHOLE else SANITIZED[:2]:
    if not shutil.which(words[0]):
        continue
    for name in PROGRAMS.split():
        source = next(p for p in (f"{ROOT}/tests/shim/{name}.c", f"{ROOT}/tests/shim/{name}.cc") if os.path.exists(p))
        exe = build(name, words, source)
        if exe is None:
            break
        more = dict(NOISE)
        if words == ["gcc", "-fsanitize=address"]:
            # Its library wants to be the first, whatever is preloaded.
            more["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        alike(f"{' '.join(words)}: {name}", [exe], 1, "all", **more)
    else:
        ran.append(" ".join(words))
print(*ran, sep="\n", flush=True)

PLUGIN = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* All of its own: a file that only it knows. */
int own(const char *path) {
    static char piece[3 << 20];
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0644);
    memset(piece, 7, sizeof piece);
    return write(fd, piece, sizeof piece) == sizeof piece && close(fd) == 0 ? 0 : -1;
}
long look(const char *path) { /* opens what the program is just saving */
    static unsigned char piece[65536];
    long n, sum = 0, total = 0;
    int fd = open(path, O_RDONLY);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        for (long i = 0; i < n; i++, total++) sum = sum * 31 + piece[i];
    close(fd);
    return total * 1000 + sum % 1000;
}
long add(int fd) { return write(fd, "plug-in", 7); } /* writes the program's descriptor */
"""
HOST = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **word) {
    void *library = dlopen(word[1], RTLD_NOW | RTLD_DEEPBIND);
    if (!library) { puts(dlerror()); return 1; }
    int (*own)(const char *) = dlsym(library, "own");
    long (*look)(const char *) = dlsym(library, "look"), (*add)(int) = dlsym(library, "add");
    size_t n = 40 << 20;
    char *p = malloc(n);
    for (size_t i = 0; i < n; i++) p[i] = i * 7 + i / 251;
    int fd = open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644);
    if (write(fd, p, n) != (ssize_t)n) return 2;
    printf("%d\n", own("own.ckpt"));
    printf("%ld\n", look("own.ckpt"));
    printf("%ld\n", look("a.ckpt"));
    close(fd);
    fd = open("b.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644);
    for (int i = 0; i < 5; i++) {
        if (write(fd, p + i, n / 4) != (ssize_t)(n / 4)) return 3;
        printf("%ld ", add(fd));
        printf("%ld\n", (long)lseek(fd, 0, SEEK_CUR));
    }
    close(fd);
    printf("%ld\n", look("b.ckpt"));
    return 0;
}
"""
for name, text in (("plugin", PLUGIN), ("host", HOST)):
    with open(f"{trial.TOP}/{name}.c", "w", encoding="ascii") as f:
        f.write(text)
host = build("host", ["gcc"], f"{trial.TOP}/host.c")
plugin = build("plugin.so", ["gcc", "-shared", "-fPIC"], f"{trial.TOP}/plugin.c")
for mode in ("default", "all", "ring"):
    alike("RTLD_DEEPBIND", [host, plugin], 2, mode)
agents.kill(trial.JOB)
