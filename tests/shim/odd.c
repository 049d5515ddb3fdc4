/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * odd.c -- every alignment of the source, sizes around a page and around 1 MiB
 * run: captures=1
 *
 * Right: the same bytes.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(3 * MIB, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG - MIB);
    for (size_t i = 0; i < 72; i++)
        put(fd, p + i, 16384 - 36 + i);
    for (size_t i = 0; i < 7; i++)
        put(fd, p + 61 + i, MIB - 3 + i);
    for (size_t i = 0; i < 130; i++)
        put(fd, p + 4096 - i, i);
    for (size_t i = 0; i < 9; i++)
        put(fd, p + i, 4096 - 4 + i);
    return close(fd);
}
