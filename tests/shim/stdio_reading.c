/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_reading.c -- a large fwrite on a stream that only reads, of a descriptor that writes
 * run: captures=1
 *
 * Right: it fails with EBADF and the file stays as it was.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    FILE *f = fdopen(must(dup(fd)), "r");
    check(f != NULL);
    put(fd, p, BIG);
    errno = 0;
    printf("%zu", fwrite(p, 1, BIG, f));
    printf(" %d %d\n", errno, ferror(f) != 0);
    check(fclose(f) == 0 && close(fd) == 0);
    show("a.ckpt");
    return 0;
}
