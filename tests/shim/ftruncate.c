/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ftruncate.c -- down, up, and in the middle of a save; safetensors' way: full size first
 * run: captures=1
 *
 * Right: what was cut off stays cut off, whatever was still to be drained.
 */
#include "helper.h"

static void cut(int fd, off_t length)
{
    struct stat st;
    errno = 0;
    int value = ftruncate(fd, length);
    printf("%d %d ", value, errno);
    must(fstat(fd, &st));
    printf("%lld, at %lld\n", (long long)st.st_size, (long long)lseek(fd, 0, SEEK_CUR));
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    cut(fd, MIB + 5);
    put(fd, p, 100); /* leaves a gap of zeros */
    put(fd, p, BIG);
    cut(fd, 9 * MIB);
    put_at(fd, p, BIG, 8 * MIB);
    cut(fd, 8 * MIB + 1);
    cut(fd, -1);
    put_at(fd, p, 1, 9 * MIB);
    cut(fd, 10 * MIB + 3);
    close(fd);

    fd = create("b.ckpt"); /* safetensors */
    cut(fd, 2 * BIG + 8);
    put(fd, p, 8);
    put(fd, p, BIG);
    put(fd, p + 1, BIG - 1);
    close(fd);
    printf("%lld\n", size_of("b.ckpt"));

    fd = create("c.ckpt");
    put(fd, p, BIG);
    cut(fd, 0);
    check(lseek(fd, 0, SEEK_SET) == 0);
    put(fd, p + 5, BIG - 5);
    close(fd);
    show("c.ckpt");
    return 0;
}
