/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zero.c -- writes of nothing, before and after a large one, and an empty file
 * run: captures=1
 *
 * Right: 0 is returned, size and offset stay, a zero-length pwrite far out does not extend.
 */
#include "helper.h"

static void nothing(int fd)
{
    struct iovec v = {NULL, 0};
    long a = write(fd, NULL, 0), b = write(fd, "x", 0), c = writev(fd, &v, 1);
    long d = writev(fd, &v, 0), e = pwrite(fd, "x", 0, 99 << 20);
    struct stat st;
    must(fstat(fd, &st));
    printf("%ld %ld %ld %ld %ld, size %lld, at %lld\n", a, b, c, d, e, (long long)st.st_size,
           (long long)lseek(fd, 0, SEEK_CUR));
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    nothing(fd);
    put(fd, p, BIG);
    nothing(fd);
    put(fd, p, 9);
    nothing(fd);
    close(fd);
    close(create("empty.ckpt"));
    printf("%lld %lld\n", size_of("a.ckpt"), size_of("empty.ckpt"));
    return 0;
}
