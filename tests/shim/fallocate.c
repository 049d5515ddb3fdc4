/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fallocate.c -- fallocate in each mode and posix_fallocate, before and during a save
 * run: captures=1
 *
 * Right: in its place in the order; space that the program reserved stays its own.
 */
#include "helper.h"

static void reserve(int fd, int mode, off_t at, off_t length)
{
    errno = 0;
    int value = fallocate(fd, mode, at, length), error = errno;
    struct stat st;
    must(fstat(fd, &st));
    printf("%#x: %d %d, size %lld\n", (unsigned)mode, value, error, (long long)st.st_size);
}

int main(void)
{
    char *p = bytes(8 * MIB, 1);
    int fd = create("a.ckpt");
    put(fd, p, 4 * MIB);
    reserve(fd, 0, 0, 6 * MIB);
    reserve(fd, FALLOC_FL_KEEP_SIZE, 0, 20 * MIB);
    put_at(fd, p, 2 * MIB, 5 * MIB);
    reserve(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MIB, 65536);
    reserve(fd, FALLOC_FL_ZERO_RANGE, 2 * MIB, 4096 * 3);
    put_at(fd, p, 100, 2 * MIB + 5);
    reserve(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 65536);
    reserve(fd, FALLOC_FL_INSERT_RANGE, 65536, 65536);
    reserve(fd, 0, -1, 5);
    reserve(fd, 0, 5, 0);
    put(fd, p, MIB);
    struct stat st;
    must(fstat(fd, &st));
    printf("%d\n", st.st_blocks * 512 >= (blkcnt_t)(18 * MIB)); /* the reservation is kept */
    close(fd);

    fd = create("b.ckpt");
    printf("%d\n", posix_fallocate(fd, 0, 5 * MIB));
    put(fd, p, BIG);
    printf("%d\n", posix_fallocate64(fd, 4 * MIB, 4 * MIB));
    put(fd, p, BIG);
    printf("%d %d\n", posix_fallocate(fd, 0, -1), posix_fallocate(99, 0, 5));
    printf("%lld\n", size_of("b.ckpt"));
    return close(fd);
}
