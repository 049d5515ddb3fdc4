/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nonblock.c -- opens with O_NONBLOCK what it has just written, closed and still open (rsync does)
 * run: captures=2
 *
 * Right: the file is opened, whole; its mode can be set.
 */
#include "helper.h"

static void look(const char *name)
{
    int fd = must(open(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW));

    show_fd(name, fd);
    must(fchmod(fd, 0604));
    must(close(fd));
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");

    put(fd, p, BIG);
    must(close(fd));
    look("a.ckpt");
    fd = create("b.ckpt");
    put(fd, p, BIG);
    look("b.ckpt");
    put(fd, p, BIG);
    return close(fd);
}
