/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fdopen.c -- a stream for a descriptor that has just been written and moved back
 * run: captures=4
 *
 * Right: what stdio reads and writes by itself, a character at a time, comes after that;
 * "a" makes all writes append, those on the descriptor too.
 */
#include "helper.h"

static char *p, *q;

/* Written twice: a place that lags behind has the first bytes. */
static int written(const char *name, off_t at)
{
    int fd = must(open(name, O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    put_at(fd, q, BIG, 0);
    must(lseek(fd, at, SEEK_SET));
    return fd;
}

int main(void)
{
    p = bytes(BIG, 1), q = bytes(BIG, 2);
    FILE *f = fdopen(written("read.ckpt", BIG - 50), "r+");
    uint64_t seen = 0;
    check(f != NULL);
    for (int c, i = 0; (c = getc(f)) != EOF; i++)
        check(c == (unsigned char)q[BIG - 50 + (size_t)i]), seen++;
    printf("%llu %ld\n", (unsigned long long)seen, ftell(f));
    check(fclose(f) == 0);
    f = fdopen(written("write.ckpt", BIG - 9000), "w");
    check(f != NULL);
    for (int i = 0; i < 10000; i++)
        putc(i % 251, f);
    check(fclose(f) == 0);
    show("write.ckpt");
    f = fdopen(written("end.ckpt", BIG), "w");
    check(f != NULL && fwrite(p, 1, BIG, f) == BIG && fclose(f) == 0);
    show("end.ckpt");
    int fd = written("append.ckpt", 5);
    f = fdopen(must(dup(fd)), "a");
    check(f != NULL);
    put(fd, p, BIG);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    check(fwrite(p, 1, 100, f) == 100 && fclose(f) == 0 && close(fd) == 0);
    show("append.ckpt");
    return 0;
}
