/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * temporary.c -- mkstemp + rename, mkostemp, mkostemps, mkdtemp, tmpfile, O_TMPFILE + linkat
 * run: captures=1 captures-all=4
 *
 * Right: a file that gets its name only when it is whole is whole under that name.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1), a[] = "XXXXXX", b[] = "x-XXXXXX", d[] = "d-XXXXXX", path[64];
    int fd = must(mkstemp(a));
    put(fd, p, BIG);
    close(fd);
    must(rename(a, "a.ckpt"));
    show("a.ckpt");
    fd = must(mkostemp(b, O_CLOEXEC));
    put(fd, p + 1, BIG - 1);
    must(rename(b, "b.ckpt"));
    put(fd, p, 77);
    close(fd);
    show("b.ckpt");
    char s[] = "XXXXXX.ckpt";
    fd = must(mkostemps(s, 5, O_CLOEXEC));
    put(fd, p + 4, BIG - 4);
    close(fd);
    must(rename(s, "s.ckpt"));
    check(mkdtemp(d) != NULL);
    snprintf(path, sizeof path, "%s/c.ckpt", d);
    save(path, BIG, 3);
    must(rename(path, "c.ckpt"));
    must(rmdir(d));
    FILE *f = tmpfile();
    check(f != NULL && fwrite(p, 1, BIG, f) == BIG && fseek(f, 5, SEEK_SET) == 0);
    printf("%d\n", fgetc(f) == (unsigned char)p[5]);
    fclose(f);
    fd = open(".", O_TMPFILE | O_WRONLY, 0640);
    if (fd < 0)
        return errno == EOPNOTSUPP ? 0 : 1;
    put(fd, p + 2, BIG - 2);
    put(fd, p, 1000);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(linkat(AT_FDCWD, path, AT_FDCWD, "e.ckpt", AT_SYMLINK_FOLLOW));
    show("e.ckpt");
    put(fd, p, 10);
    close(fd);
    show("e.ckpt");
    return 0;
}
