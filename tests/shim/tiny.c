/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tiny.c -- 100,000 writes of a few bytes behind a large one, to two files in turn
 * run: captures=2
 *
 * Right: each in its place; more of them than the log has room for just wait.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int a = create("a.ckpt"), b = create("b.ckpt");
    put(a, p, BIG);
    put(b, p, BIG);
    for (unsigned i = 0; i < 100000; i++)
        put(i % 3 ? a : b, p + i, 1 + i % 20);
    for (unsigned i = 0; i < 10000; i++)
        put_at(a, p + i, 3, (off_t)(i * 131 % BIG));
    printf("%lld %lld\n", (long long)lseek(a, 0, SEEK_CUR), (long long)lseek(b, 0, SEEK_END));
    return close(a) | close(b);
}
