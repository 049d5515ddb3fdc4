/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_size.c -- a text that stdio writes by itself, as its buffer is full, after a large fwrite
 * run: captures=2
 *
 * Right: the size grows as stdio's blocks are written; the same blocks as ever.
 */
#include "helper.h"

static void work(const char *name, const char *how)
{
    char *p = bytes(BIG, 1);
    FILE *f = fopen(name, how);
    check(f != NULL);
    for (size_t i = 0; i < 10; i++) {
        check(fwrite(p, 1, MIB + 7 * i, f) == MIB + 7 * i && fflush(f) == 0);
        fprintf(f, "%020000d", 1);
        printf("%lld", size_of(name));
        printf(" %lld", (long long)lseek(fileno(f), 0, SEEK_END));
        for (int j = 0; j < 5000; j++)
            putc('x', f);
        printf(" %lld\n", size_of(name));
    }
    check(fclose(f) == 0);
    show(name);
    free(p);
}

int main(void)
{
    work("a.ckpt", "w");
    work("b.ckpt", "w+");
    return 0;
}
