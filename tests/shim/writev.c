/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writev.c -- [header][tensor] in one call, empty parts, 1024 parts, too many
 * run: captures=1
 *
 * Right: the sum is returned; more than IOV_MAX parts is EINVAL.
 */
#include "helper.h"
#include <limits.h>

int main(void)
{
    char *p = bytes(8 * MIB, 1);
    int fd = create("a.ckpt");
    struct iovec v[IOV_MAX + 1];
    for (int i = 0; i < 4; i++) {
        v[0] = (struct iovec){p + i, 64};
        v[1] = (struct iovec){NULL, 0};
        v[2] = (struct iovec){p + 64 + i, BIG + (size_t)i};
        printf("%zd\n", writev(fd, v, 3));
    }
    for (int i = 0; i <= IOV_MAX; i++)
        v[i] = (struct iovec){p + 3 * i, 2053};
    printf("%zd\n", writev(fd, v, IOV_MAX));
    errno = 0;
    printf("%zd %d\n", writev(fd, v, IOV_MAX + 1), errno);
    printf("%zd\n", writev(fd, v, 0));
    errno = 0;
    volatile int negative = -1;
    printf("%zd %d\n", writev(fd, v, negative), errno);
    v[1].iov_len = (size_t)-1;
    errno = 0;
    printf("%zd %d\n", writev(fd, v, 2), errno);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    return close(fd);
}
