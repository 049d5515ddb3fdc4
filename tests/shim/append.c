/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append.c -- files opened with O_APPEND, O_SYNC, O_DSYNC, by two descriptors in turn
 * run: captures=0
 *
 * Right: such files are not captured, and appends of both interleave.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int a = must(open("a.ckpt", O_CREAT | O_WRONLY | O_APPEND, 0644));
    int b = must(open("a.ckpt", O_WRONLY | O_APPEND));
    put(a, p, BIG), put(b, p + 1, 9), put(a, p + 2, BIG - 2), put(b, p, BIG);
    printf("%lld %lld\n", (long long)lseek(a, 0, SEEK_CUR), (long long)lseek(b, 0, SEEK_CUR));
    close(a), close(b);
    FILE *f = fopen("a.ckpt", "ab");
    check(f && fwrite(p, 1, BIG, f) == BIG && fclose(f) == 0);
    int c = must(open("b.ckpt", O_CREAT | O_WRONLY | O_SYNC, 0644));
    int d = must(open("c.ckpt", O_CREAT | O_WRONLY | O_DSYNC, 0644));
    put(c, p, BIG), put(d, p, BIG);
    close(c), close(d);
    return 0;
}
