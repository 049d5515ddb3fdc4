/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fortify.c -- the entry points of programs built with _FORTIFY_SOURCE
 * run: captures=1
 *
 * Right: __open_2, __read_chk, __pread_chk and their like see the same file.
 */
#define _FORTIFY_SOURCE 2
#include "helper.h"

int main(void)
{
    volatile int flags = O_RDWR;
    static char q[65536];
    volatile size_t n = sizeof q;
    char *p = bytes(BIG, 1);
    close(create("a.ckpt"));
    int fd = must(open("a.ckpt", flags));
    put(fd, p, BIG);
    printf("%zd\n", pread(fd, q, n, 100));
    check(memcmp(q, p + 100, n) == 0);
    put(fd, p, BIG);
    check(lseek(fd, 5, SEEK_SET) == 5);
    printf("%zd\n", read(fd, q, n));
    check(memcmp(q, p + 5, n) == 0);
    put(fd, p, 9);
    close(fd);
    fd = must(openat(AT_FDCWD, "a.ckpt", flags));
    printf("%zd\n", pread64(fd, q, n, (off_t)BIG));
    show_fd("a.ckpt", fd);
    close(fd);
    fd = must(open64("a.ckpt", flags | O_TRUNC));
    put(fd, p + 1, BIG - 1);
    printf("%lld\n", size_of("a.ckpt"));
    return close(fd);
}
