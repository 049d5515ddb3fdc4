/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close_range.c -- the program closes all descriptors from 3 on, in each way, in mid-save
 * run: captures=2
 *
 * Right: the files are whole, a later save works, descriptors marked close-on-exec
 * stay open until then.
 */
#include "helper.h"

static void *const_copy;

static int begin(const char *name)
{
    int fd = create(name);
    put(fd, const_copy, BIG);
    return fd;
}

int main(void)
{
    const_copy = bytes(BIG, 1);
    begin("a.ckpt");
    must(close_range(3, ~0u, 0));
    show("a.ckpt");
    begin("b.ckpt");
    closefrom(3);
    show("b.ckpt");
    begin("c.ckpt");
    for (int i = 3; i < 20000; i++)
        close(i);
    show("c.ckpt");
    int fd = begin("d.ckpt");
    must(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
    put(fd, const_copy, BIG);
    printf("%d\n", fcntl(fd, F_GETFD));
    close(fd);
    fd = begin("e.ckpt");
    must(close_range(3, ~0u, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC));
    put(fd, const_copy, 100);
    close(fd);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d.ckpt", i);
        save(name, BIG, (uint64_t)i);
    }
    fd = begin("g.ckpt");
    put(fd, "x", 1);
    return close(fd);
}
