/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_closeall.c -- streams hold bytes, over what was written before, when fcloseall closes them
 * run: captures=1
 *
 * Right: these bytes stand: they were written last.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    FILE *stream = fopen("a.ckpt", "w"), *other = fopen("b.ckpt", "w");
    check(fwrite(p, 1, BIG, stream) == BIG);
    check(fseek(stream, 10, SEEK_SET) == 0);
    fputs("patch", stream), fputs("text", other);
    put_at(fileno(stream), p + 100, 1000, 5);
    check(fcloseall() == 0);
    int fd = must(open("c.ckpt", O_CREAT | O_WRONLY, 0644));
    check(dprintf(fd, "%d", fd) > 0);
    return close(fd);
}
