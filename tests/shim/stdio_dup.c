/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_dup.c -- stdio on a duplicate of a descriptor that is written too (NumPy's way)
 * run: captures=2
 *
 * Right: the two take turns at one offset, each after what the other has flushed.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.npy");
    put(fd, "\x93NUMPY\1\0", 8);
    put(fd, p, 120);
    for (int i = 0; i < 4; i++) {
        FILE *f = fdopen(must(dup(fd)), "w");
        check(f != NULL);
        off_t at = lseek(fd, 0, SEEK_CUR);
        check(fseeko(f, at, SEEK_SET) == 0);
        check(fwrite(p + i, 1, BIG - (size_t)i, f) == BIG - (size_t)i);
        check(fwrite(p, 1, 33, f) == 33);
        off_t end = ftello(f);
        check(fclose(f) == 0);
        printf("%lld %lld\n", (long long)end, (long long)lseek(fd, 0, SEEK_CUR));
        check(lseek(fd, end, SEEK_SET) == end);
        put(fd, p, i % 2 ? 10 : BIG);
    }
    put_at(fd, p, 8, 0);
    close(fd);
    show("a.npy");

    FILE *f = fopen("b.ckpt", "w");
    fd = fileno(f);
    check(fwrite("first", 1, 5, f) == 5 && fflush(f) == 0);
    put(fd, p, BIG);
    check(fseek(f, 0, SEEK_END) == 0 && fwrite("middle", 1, 6, f) == 6 && fflush(f) == 0);
    put(fd, p, BIG);
    check(fseek(f, 0, SEEK_END) == 0 && fwrite(p, 1, BIG, f) == BIG);
    printf("%ld\n", ftell(f));
    FILE *g = fopen("c.ckpt", "w");
    check(fwrite(p, 1, BIG, g) == BIG && fflush(g) == 0 && dup2(fileno(f), fileno(g)) >= 0);
    check(fwrite("end", 1, 3, f) == 3);
    return fclose(f) | fclose(g);
}
