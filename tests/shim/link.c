/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c -- hard and symbolic links of a file being saved; saving through a symbolic link
 * run: captures=3
 *
 * Right: all names of one file show the same bytes and size; a symbolic link stays
 * one, and what is written through it lands in its target.
 */
#include "helper.h"

static void look(const char *name)
{
    char target[64] = "";
    struct stat st;
    must(lstat(name, &st));
    ssize_t n = readlink(name, target, sizeof target - 1);
    printf("%s: mode %o, links %d, size %lld, to %.*s\n", name, st.st_mode, (int)st.st_nlink,
           (long long)st.st_size, n > 0 ? (int)n : 0, target);
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    must(link("a.ckpt", "b.ckpt"));
    put(fd, p + 1, BIG - 1);
    look("a.ckpt"), look("b.ckpt");
    must(unlink("a.ckpt"));
    put(fd, p, 100);
    close(fd);
    look("b.ckpt");
    must(linkat(AT_FDCWD, "b.ckpt", AT_FDCWD, "c.ckpt", 0));
    fd = must(open("c.ckpt", O_WRONLY | O_TRUNC)); /* two links: not a candidate */
    put(fd, p + 5, BIG - 5);
    close(fd);
    show("b.ckpt");

    save("e1.ckpt", BIG, 1);
    must(symlink("e1.ckpt", "last"));
    save("last", BIG + 1, 2); /* through the link */
    look("last"), look("e1.ckpt");
    save("e2.ckpt", BIG + 2, 3);
    must(symlinkat("e2.ckpt", AT_FDCWD, ".t"));
    must(rename(".t", "last"));
    look("last");
    show("last");
    must(symlink("new.ckpt", "dangling"));
    save("dangling", BIG, 4); /* creates the target */
    look("dangling"), look("new.ckpt");
    must(mkdir("d", 0755)), must(symlink("d", "l"));
    save("l/f.ckpt", BIG, 5);
    look("d/f.ckpt");
    errno = 0;
    printf("%d %d\n", open("last", O_WRONLY | O_NOFOLLOW), errno);
    return 0;
}
