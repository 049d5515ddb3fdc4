/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append_flag.c -- F_SETFL O_APPEND in the middle of a save, and back; F_GETFL
 * run: captures=1
 *
 * Right: while it is set, writes go to the end, wherever the offset stands.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    printf("%#x\n", (unsigned)must(fcntl(fd, F_GETFL)));
    check(lseek(fd, 10, SEEK_SET) == 10);
    must(fcntl(fd, F_SETFL, O_APPEND));
    printf("%#x\n", (unsigned)must(fcntl(fd, F_GETFL)));
    put(fd, p + 1, 100);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    check(lseek(fd, 10, SEEK_SET) == 10);
    put(fd, p + 2, BIG - 2);
    put_at(fd, p, 50, 0); /* Linux: appends too */
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    must(fcntl(fd, F_SETFL, 0));
    check(lseek(fd, 10, SEEK_SET) == 10);
    put(fd, p + 3, BIG - 3);
    printf("%lld %lld\n", (long long)lseek(fd, 0, SEEK_CUR), size_of("a.ckpt"));
    return close(fd);
}
