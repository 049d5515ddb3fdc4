/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pwrite.c -- positioned writes, in order, backward, overlapping
 * run: captures=1
 *
 * Right: the later of two writes to a byte wins, and the offset does not move.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(4 * MIB, 1);
    int fd = create("a.ckpt");
    put_at(fd, p, BIG, 0);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    put_at(fd, p + 1, 2 * MIB, 9 * MIB);
    put_at(fd, p + 2, 2 * MIB, 5 * MIB + 3);
    put_at(fd, p + 3, 4 * MIB - 3, 7 * MIB - 1);
    put_at(fd, p + 4, 1, 8 * MIB);
    put(fd, p + 5, 2 * MIB);
    put_at(fd, p + 6, 99, 2 * MIB - 50);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    errno = 0;
    printf("%zd %d\n", pwrite(fd, p, 5, -1), errno);
    return close(fd);
}
