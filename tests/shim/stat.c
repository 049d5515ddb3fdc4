/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stat.c -- stat, fstat, lstat, fstatat, statx and FIONREAD right after a write and after close
 * run: captures=1
 *
 * Right: the size that the program has written, from every call, at every moment.
 */
#include "helper.h"
#include <sys/ioctl.h>

static void sizes(int fd)
{
    struct stat a, b, c, d = {0};
    struct stat64 e;
    struct statx x, y = {0};
    int waiting = 0;
    must(stat("a.ckpt", &a)), must(lstat("a.ckpt", &b)), must(stat64("a.ckpt", &e));
    must(fstatat(AT_FDCWD, "a.ckpt", &c, AT_SYMLINK_NOFOLLOW));
    must(statx(AT_FDCWD, "a.ckpt", 0, STATX_BASIC_STATS, &x));
    if (fd >= 0) {
        must(fstat(fd, &d)), must(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &y));
        struct stat f;
        must(fstatat(fd, "", &f, AT_EMPTY_PATH));
        check(f.st_size == d.st_size);
        must(ioctl(fd, FIONREAD, &waiting));
    }
    printf("%lld %lld %lld %lld %lld %llu %llu, mode %o, links %d, %d\n", (long long)a.st_size,
           (long long)b.st_size, (long long)c.st_size, (long long)d.st_size, (long long)e.st_size,
           (unsigned long long)x.stx_size, (unsigned long long)y.stx_size, a.st_mode,
           (int)a.st_nlink, waiting);
    check(a.st_mtime >= b.st_mtime - 1 && a.st_mtime > 1000000000);
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    sizes(fd);
    put(fd, p, BIG), sizes(fd);
    put(fd, p, 10), sizes(fd);
    put_at(fd, p, BIG, 5 * MIB), sizes(fd);
    put_at(fd, p, BIG, 0), sizes(fd);
    close(fd);
    sizes(-1);
    fd = must(open("a.ckpt", O_RDONLY));
    sizes(fd);
    return close(fd);
}
