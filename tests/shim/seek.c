/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seek.c -- lseek SET, CUR, END right after writes, past the end, to a bad place
 * run: captures=1
 *
 * Right: offsets as if the bytes were there already; a gap reads as zeros.
 */
#include "helper.h"

static int fd;
static void at(off_t offset, int whence)
{
    errno = 0;
    long long where = lseek(fd, offset, whence);
    printf("%lld %d\n", where, errno);
}

int main(void)
{
    char *p = bytes(BIG, 1);
    fd = create("a.ckpt");
    put(fd, p, BIG);
    at(0, SEEK_CUR), at(0, SEEK_END), at(-5, SEEK_END), at(3, SEEK_CUR), at(-1, SEEK_SET);
    put(fd, p, 4);
    at(0, SEEK_END), at((off_t)(5 * MIB), SEEK_END);
    put(fd, p + 3, BIG);
    at(0, SEEK_END), at(1 << 20, SEEK_SET);
    put(fd, p + 7, 9);
    at(0, SEEK_CUR), at(100, SEEK_END), at(0, 77);
    put(fd, p, 1);
    at(0, SEEK_END);
    return close(fd);
}
