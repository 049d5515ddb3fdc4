/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patch.c -- the header is rewritten after the data, and 2000 bytes here and there
 * run: captures=1 modes=default,all,ring
 *
 * Right: a patch stands in its place in the order: over what was written before
 * it, under what is written after it. (zip patches bytes 0 to 54, HDF5 its superblock.)
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(6 * MIB, 1);
    int fd = create("a.ckpt");
    put(fd, p, 55);
    put(fd, p + 9, 4 * MIB);
    check(lseek(fd, 0, SEEK_SET) == 0);
    put(fd, p + 4 * MIB, 55);
    check(lseek(fd, 0, SEEK_END) == (off_t)(4 * MIB + 55));
    put(fd, p + MIB, 2 * MIB);
    uint64_t x = 88172645463325252ull;
    for (int i = 0; i < 2000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t at = x % (6 * MIB), n = 1 + (x >> 32) % (i % 100 ? 300 : 2 * MIB);
        put_at(fd, p + (x >> 20) % (2 * MIB), n, (off_t)at);
    }
    put_at(fd, p, 96, 0);
    return close(fd);
}
