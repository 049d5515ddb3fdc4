/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dup.c -- dup, dup2, dup3, F_DUPFD of a file being saved; dup2 onto one
 * run: captures=2
 *
 * Right: one offset for all; the file is closed with the last of them; what was
 * there before a dup2 is closed and whole.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(2 * BIG, 1);
    int a = create("a.ckpt"), b = must(dup(a));
    put(a, p, BIG);
    put(b, p + 1, 100);
    int c = must(dup2(a, 100)), d = must(dup3(b, 101, O_CLOEXEC));
    int e = must(fcntl(a, F_DUPFD, 120)), f = must(fcntl(a, F_DUPFD_CLOEXEC, 130));
    printf("%d %d %d %d, cloexec %d %d %d %d\n", c, d, e, f, fcntl(c, F_GETFD), fcntl(d, F_GETFD),
           fcntl(e, F_GETFD), fcntl(f, F_GETFD));
    close(a);
    put(c, p + 2, BIG);
    put(d, p + 3, 7);
    close(b);
    put(e, p + 4, MIB);
    check(lseek(f, 33, SEEK_SET) == 33);
    put(d, p + 5, 11);
    printf("%lld\n", (long long)lseek(c, 0, SEEK_CUR));
    close(c), close(d), close(e);
    put(f, p, 5);
    printf("%d\n", dup2(f, f) == f);
    int g = create("b.ckpt");
    put(g, p, BIG);
    must(dup2(f, g)); /* closes b.ckpt */
    put(g, p, 3);
    show("b.ckpt");
    close(f), close(g);
    show("a.ckpt");
    errno = 0;
    printf("%d %d\n", dup2(f, 7), errno);
    return 0;
}
