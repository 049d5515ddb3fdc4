/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reader.c -- readers without the shim right after close, in mid-save, and in a loop beside it
 * run: captures=1 captures-all=8
 *
 * Right: who opens a closed file sees all of it; who opens an unfinished one sees
 * what has been written so far, and the program goes on.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(16 * MIB, 1);
    for (unsigned i = 0; i < 5; i++) {
        save("a.ckpt", 16 * MIB + i, i);
        bare(i % 2 ? "sha256sum a.ckpt" : "cat a.ckpt | sha256sum");
    }
    save("b.ckpt", 16 * MIB, 9);
    bare("cp b.ckpt c; cmp b.ckpt c; tar -cf - b.ckpt | tar -xOf - | sha256sum");
    int fd = create("d.ckpt");
    put(fd, p, 8 * MIB);
    bare("sha256sum d.ckpt");
    put(fd, p + 1, 4 * MIB);
    bare("sha256sum d.ckpt; tail -c 1000 d.ckpt | sha256sum");
    put_at(fd, p, 1000, 7 * MIB);
    close(fd);
    bare("sha256sum d.ckpt");

    fflush(stdout);
    pid_t pid = must(fork());
    if (pid == 0) { /* each name it finds holds 4 MiB of one seed */
        unsetenv("LD_PRELOAD");
        execl("/bin/sh", "sh", "-c",
              "n=0; while [ ! -e stop ]; do [ ! -e e.ckpt ] || "
              "[ $(head -c 8388608 e.ckpt | wc -c) = 4194304 ] || { echo short; exit 1; }; done",
              (char *)0);
        _exit(127);
    }
    for (unsigned i = 0; i < 20; i++) {
        save("e.tmp", 4 * MIB, i);
        must(rename("e.tmp", "e.ckpt"));
        usleep(5000);
    }
    close(create("stop"));
    reap("reader", pid);
    return 0;
}
