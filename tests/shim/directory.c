/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory.c -- mkdir, rmdir, and the rename of directories around saves
 * run: captures=1 captures-all=7
 *
 * Right: rmdir works at once when the files are gone and says ENOTEMPTY while they
 * are not; a renamed directory takes its files along, also one still written.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    for (int i = 0; i < 3; i++) {
        must(mkdir("d", 0750));
        save("d/a.ckpt", BIG, (uint64_t)i);
        errno = 0;
        printf("%d %d\n", rmdir("d"), errno);
        must(unlink("d/a.ckpt"));
        must(rmdir("d"));
    }
    must(mkdir("d.tmp", 0755));
    must(mkdir("d.tmp/e", 0700));
    save("d.tmp/a.ckpt", BIG, 5);
    save("d.tmp/e/b.ckpt", BIG, 6);
    must(rename("d.tmp", "d"));
    show("d/a.ckpt");
    int fd = create("d/c.ckpt");
    put(fd, p, BIG);
    must(rename("d", "f"));
    printf("%lld\n", size_of("f/c.ckpt"));
    put(fd, p + 1, BIG - 1);
    close(fd);
    show("f/c.ckpt");
    must(mkdir("d", 0755));
    save("d/d.ckpt", BIG, 8);
    must(rename("d/d.ckpt", "f/d.ckpt"));
    errno = 0;
    printf("%d %d\n", rename("f", "d/g/h"), errno);
    must(rename("f", "d")); /* onto an empty directory */
    show("d/e/b.ckpt");
    return 0;
}
