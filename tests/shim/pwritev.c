/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pwritev.c -- pwritev and pwritev2: offset -1, RWF_DSYNC, RWF_APPEND, an unknown flag
 * run: captures=1
 *
 * Right: as the kernel does each; RWF_APPEND goes to the end whatever the offset.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(4 * MIB, 1);
    struct iovec v[2] = {{p + 3, 100}, {p + 7, 2 * MIB + 1}};
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    printf("%zd\n", pwritev(fd, v, 2, 5 * MIB));
    printf("%zd\n", pwritev64(fd, v, 2, MIB + 5));
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    printf("%zd\n", pwritev2(fd, v, 2, -1, 0));
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    printf("%zd\n", pwritev2(fd, v, 2, 17, RWF_DSYNC));
    printf("%zd\n", pwritev2(fd, v, 2, 17, RWF_APPEND));
    printf("%zd\n", pwritev2(fd, v, 1, 40, 0));
    errno = 0;
    printf("%zd %d\n", pwritev2(fd, v, 1, 40, 0x4000000), errno);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    return close(fd);
}
