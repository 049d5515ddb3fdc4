/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.c -- O_DIRECT from open, and switched on in the middle of a save
 *
 * Right: direct writes stand in their place among the others.
 * run: captures-all=1
 */
#include "helper.h"

int main(void)
{
    char *p;
    check(posix_memalign((void **)&p, 4096, 4 * MIB) == 0);
    fill(p, 4 * MIB, 1);
    errno = 0;
    int fd = open("a.ckpt", O_CREAT | O_TRUNC | O_WRONLY | O_DIRECT, 0644);
    printf("%d %d\n", fd >= 0, errno);
    if (fd >= 0) {
        put(fd, p, 2 * MIB);
        put(fd, p + 4096, MIB);
        errno = 0;
        printf("%zd %d\n", write(fd, p + 1, 4096), errno);
        close(fd);
    }
    fd = create("b.ckpt");
    put(fd, p, 4 * MIB);
    errno = 0;
    printf("%d %d\n", fcntl(fd, F_SETFL, O_DIRECT), errno);
    put(fd, p + MIB, 2 * MIB);
    put_at(fd, p + 2 * MIB, MIB, 4096);
    must(fcntl(fd, F_SETFL, 0));
    put(fd, p, 100);
    return close(fd);
}
