/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close_waits.c -- PORTUS_CLOSE=drained and durable: close returns when the file has its bytes
 * run: captures=3 modes=drained,durable
 *
 * Right: a process without the shim that does not open the file sees its size at once.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    save("a.ckpt", 16 * MIB, 1);
    bare("stat -c %s a.ckpt");
    int fd = create("b.ckpt"), copy = must(dup(fd));
    put(fd, p, BIG);
    close(fd);
    put(copy, p, BIG);
    close(copy);
    bare("stat -c %s b.ckpt");
    FILE *f = fopen("c.ckpt", "w");
    check(f && fwrite(p, 1, BIG, f) == BIG && fwrite(p, 1, 100, f) == 100);
    printf("%d\n", fclose(f));
    bare("stat -c %s c.ckpt");
    fd = create("d.ckpt");
    put(fd, p, BIG);
    must(dup2(1, fd)); /* closes it, too */
    bare("stat -c %s d.ckpt");
    return 0;
}
