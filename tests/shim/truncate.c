/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * truncate.c -- truncate by path during a save and right after it, O_TRUNC by a second fd
 * run: captures=1
 *
 * Right: in its place in the order; the program never waits for itself.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    must(truncate("a.ckpt", 12345));
    printf("%lld\n", size_of("a.ckpt"));
    put(fd, p, BIG);
    must(truncate64("a.ckpt", 12 * MIB));
    put_at(fd, p, 5, 0);
    close(fd);
    must(truncate("a.ckpt", 11 * MIB + 1));
    show("a.ckpt");

    fd = create("b.ckpt");
    put(fd, p, BIG);
    int other = must(open("b.ckpt", O_WRONLY | O_TRUNC));
    printf("%lld\n", size_of("b.ckpt"));
    put(other, p + 1, 100);
    put(fd, p, MIB); /* behind a gap */
    close(other);
    close(fd);
    show("b.ckpt");

    save("c.ckpt", BIG, 2);
    must(truncate("c.ckpt", 0));
    printf("%lld\n", size_of("c.ckpt"));
    return 0;
}
