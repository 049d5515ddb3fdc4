/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_exit.c -- streams that are never closed: exit flushes them, after everything else
 * run: captures=2
 *
 * Right: the buffered rest stands behind what was written before; an unflushed
 * stream of a program that ends by _exit is lost, as ever.
 */
#include "helper.h"

static FILE *late;
static void handler(void)
{
    char *p = bytes(BIG, 3);
    check(fwrite(p, 1, BIG, late) == BIG && fputs("at exit", late) >= 0);
}

__attribute__((destructor)) static void last(void)
{
    save("c.ckpt", BIG, 4);
    fputs("in the destructor", late);
}

int main(void)
{
    char *p = bytes(BIG, 1);
    late = fopen("b.ckpt", "w");
    atexit(handler);
    FILE *f = fopen("a.ckpt", "w");
    check(f && fwrite(p, 1, BIG, f) == BIG && fputs("rest", f) >= 0);
    fflush(stdout);
    pid_t pid = must(fork());
    if (pid == 0) {
        FILE *g = fopen("d.ckpt", "w");
        check(g && fwrite(p, 1, BIG, g) == BIG && fflush(g) == 0 && fputs("lost", g) >= 0);
        _exit(0);
    }
    reap("child", pid);
    check(fwrite(p + 1, 1, 2 * MIB, f) == 2 * MIB);
    fputs("end", f);
    return 0;
}
