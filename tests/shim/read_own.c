/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read_own.c -- the writer reads its file while it writes it: O_RDWR, a second fd, readv
 * run: captures=1
 *
 * Right: it reads what it wrote; at the end 0.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(2 * BIG, 1), *q = malloc(2 * BIG);
    int fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    printf("%zd %zd\n", read(fd, q, 10), pread(fd, q, BIG, 5));
    check(memcmp(p + 5, q, BIG - 5) == 0);
    put(fd, p + BIG, BIG);
    put_at(fd, p + 9, 60, 0);
    struct iovec v[2] = {{q, 61}, {q + 61, 2 * BIG - 61}};
    check(preadv(fd, v, 2, 0) == (ssize_t)(2 * BIG));
    printf("%016llx\n", (unsigned long long)digest(q, 2 * BIG, 0));
    check(lseek(fd, 100, SEEK_SET) == 100);
    check(preadv2(fd, v, 1, 0, 0) == 61);
    check(readv(fd, v, 2) == (ssize_t)(2 * BIG - 100));
    int other = must(open("a.ckpt", O_RDONLY));
    show_fd("other", other);
    put(fd, p, BIG);
    show_fd("other", other);
    put(fd, p + 1, 77);
    show_fd("other", other);
    close(fd);
    show_fd("other", other);
    return close(other);
}
