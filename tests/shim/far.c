/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far.c -- offsets of terabytes, at the end of what an offset can say, and beyond
 * run: captures=2
 *
 * Right: sizes and errors as the kernel's; a gap takes no room on the disk.
 */
#include "helper.h"

static int fd;
#define try(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long long value_ = (long long)(call);                                                      \
        printf("%s: %lld %d, size %lld\n", #call, value_, errno, size_of("a.ckpt"));               \
    } while (0)

int main(void)
{
    char *p = bytes(BIG, 1);
    const off_t tera = (off_t)1 << 40;
    fd = create("a.ckpt");
    try(write(fd, p, BIG));
    try(pwrite(fd, p, BIG, tera));
    try(pwrite(fd, p, 10, 3 * tera));
    struct stat st;
    must(fstat(fd, &st));
    printf("%d\n", st.st_blocks < (64 << 20) / 512);
    try(pwrite(fd, p, 10, INT64_MAX - 5));
    try(pwrite(fd, p, BIG, INT64_MAX - (off_t)BIG));
    try(lseek(fd, INT64_MAX - 10, SEEK_SET));
    try(lseek(fd, tera, SEEK_SET));
    try(write(fd, p + 1, BIG - 1));
    try(lseek(fd, -10, SEEK_END));
    try(ftruncate(fd, 4 * MIB));
    try(write(fd, p, 1));
    try(ftruncate(fd, 4 * MIB + 5));
    close(fd);
    int other = create("b.ckpt");
    check(lseek(other, tera, SEEK_SET) == tera);
    put(other, p, BIG);
    must(fstat(other, &st));
    printf("%lld %d\n", (long long)st.st_size, st.st_blocks < (64 << 20) / 512);
    must(ftruncate(other, 0));
    put_at(other, p, BIG, 0);
    return close(other);
}
