/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_reuse.c -- buffers that a device was copied to: twice, written in parts, late, or never
 * run: captures=3 referred=20 modes=default,ring,copied
 */
#include "cuda.h"

enum { SIZE = 2 * MIB + 12 };

int main(void)
{
    char *kept[5], *to;
    int fd, other;

    begin();
    fd = create("a.ckpt");
    other = create("b.ckpt");
    /* Two copies into one buffer; and one into a part of it. */
    to = host(SIZE);
    copy(to, SIZE, 1);
    copy(to, SIZE, 2);
    put(fd, to, SIZE);
    copy(to + 4096 * 3 + 8, MIB + 16, 3);
    put(fd, to, SIZE);
    /* Twice, to two files, in parts, backward. */
    put(other, to, SIZE);
    copy(to, SIZE, 4);
    for (size_t at = 0; at < SIZE; at += 300001)
        put(other, to + at, SIZE - at < 300001 ? SIZE - at : 300001);
    put_at(other, to + MIB, MIB, 5);
    /* Freed and used again before it was written. */
    free(to);
    to = host(SIZE);
    memset(to, 'n', SIZE);
    put(fd, to, SIZE);
    /* Never written, and kept over later saves. */
    for (unsigned i = 0; i < 5; i++) {
        kept[i] = host(SIZE);
        copy(kept[i], SIZE, 100 + i);
    }
    churn(fd);
    check(close(fd) == 0 && close(other) == 0);
    fd = create("c.ckpt");
    churn(fd);
    for (unsigned i = 0; i < 5; i++)
        check(stamped(kept[i], SIZE, 100 + i));
    for (unsigned i = 0; i < 5; i++) {
        put(fd, kept[i], SIZE);
        free(kept[i]);
    }
    check(close(fd) == 0);
    show("a.ckpt");
    show("b.ckpt");
    show("c.ckpt");
    return 0;
}
