/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fsize.c -- RLIMIT_FSIZE is reached by a large, a small, a placed write and by ftruncate
 * run: timeout=30
 *
 * Right: what fits is written, then EFBIG and SIGXFSZ, at the same byte.
 */
#include "helper.h"
#include <sys/resource.h>

static volatile int signals;
static void count(int number)
{
    signals += number == SIGXFSZ;
}

#define try(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long long value_ = (long long)(call);                                                      \
        printf("%s: %lld %d, %d signals\n", #call, value_, errno, signals);                        \
    } while (0)

int main(void)
{
    char *p = bytes(BIG, 1);
    signal(SIGXFSZ, count);
    struct rlimit l = {5 * MIB + 123, RLIM_INFINITY};
    must(setrlimit(RLIMIT_FSIZE, &l));
    int fd = create("a.ckpt");
    struct iovec v[2] = {{p, 100}, {p, BIG}};
    try(write(fd, p, BIG));
    try(write(fd, p, BIG));
    try(write(fd, p, BIG));
    try(write(fd, p, 5));
    try(pwrite(fd, p, 10, 5 * MIB + 120));
    try(pwrite(fd, p, BIG, 9 * MIB));
    try(writev(fd, v, 2));
    try(ftruncate(fd, 6 * MIB));
    try(lseek(fd, 3 * MIB, SEEK_SET));
    try(writev(fd, v, 2));
    close(fd);
    signal(SIGXFSZ, SIG_IGN);
    fd = create("b.ckpt");
    try(write(fd, p, BIG));
    l.rlim_cur = MIB; /* below what is there */
    must(setrlimit(RLIMIT_FSIZE, &l));
    try(write(fd, p, BIG));
    try(pwrite(fd, p, BIG, 0));
    try(posix_fallocate(fd, 0, 2 * MIB));
    close(fd);
    show("a.ckpt");
    return 0;
}
