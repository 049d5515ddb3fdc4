/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attributes.c -- mode, owner, times and extended attributes set during and after a save
 * run: captures=2
 *
 * Right: they stay as the program set them: a time that it set is not moved by what
 * is drained later, and a later write does move it.
 */
#include "helper.h"
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

static void look(const char *name)
{
    struct stat st;
    must(stat(name, &st));
    printf("%s: mode %o, mtime %lld.%09ld\n", name, st.st_mode, (long long)st.st_mtim.tv_sec,
           st.st_mtim.tv_nsec);
}

int main(void)
{
    static const struct timespec then[2] = {{1000000000, 5}, {1100000000, 7}};
    char *p = bytes(BIG, 1), value[8] = "";
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    must(fchmod(fd, 0604));
    must(futimens(fd, then));
    look("a.ckpt");
    int supported = fsetxattr(fd, "user.step", "12", 2, 0) == 0;
    if (geteuid() == 0)
        must(fchown(fd, 12, 34));
    put(fd, p, 9);
    struct stat st;
    must(fstat(fd, &st));
    printf("moved %d\n", st.st_mtime > 1100000000);
    must(futimens(fd, then));
    close(fd);
    look("a.ckpt");

    save("b.ckpt", BIG, 2);
    must(chmod("b.ckpt", 0400));
    must(utimensat(AT_FDCWD, "b.ckpt", then, 0));
    if (supported)
        must(setxattr("b.ckpt", "user.step", "13", 2, 0));
    if (geteuid() == 0)
        must(chown("b.ckpt", 56, 78));
    printf("%zd %.2s\n", supported ? getxattr("b.ckpt", "user.step", value, 8) : 2, value);
    save("c.ckpt", BIG, 3);
    must(utime("c.ckpt", &(struct utimbuf){1, 1200000000}));
    save("d.ckpt", BIG, 4);
    must(utimes("d.ckpt", (struct timeval[2]){{1, 1}, {1300000000, 2}}));
    fd = create("e.ckpt");
    put(fd, p, BIG);
    must(fchmodat(AT_FDCWD, "e.ckpt", 0640, 0));
    put(fd, p, 10);
    if (geteuid() == 0) {
        must(lchown("e.ckpt", 1, 2));
        must(fchownat(AT_FDCWD, "e.ckpt", 3, 4, 0));
    }
    if (supported) {
        must(lsetxattr("e.ckpt", "user.l", "y", 1, 0));
        must(fsetxattr(fd, "user.gone", "x", 1, 0));
        must(fremovexattr(fd, "user.gone"));
        must(fsetxattr(fd, "user.r", "x", 1, 0));
        put(fd, p, 11);
        must(removexattr("e.ckpt", "user.r"));
        must(fsetxattr(fd, "user.s", "x", 1, 0));
        must(lremovexattr("e.ckpt", "user.s"));
    }
    must(futimes(fd, (struct timeval[2]){{1, 1}, {1300000000, 2}}));
    close(fd);
    save("f.ckpt", BIG, 5);
    must(lutimes("f.ckpt", (struct timeval[2]){{1, 1}, {1400000000, 3}}));
    save("g.ckpt", BIG, 6);
    must(futimesat(AT_FDCWD, "g.ckpt", (struct timeval[2]){{1, 1}, {1500000000, 4}}));
    save("h.ckpt", BIG, 7);
    must(chmod("h.ckpt", 0));
    look("b.ckpt"), look("c.ckpt"), look("d.ckpt"), look("e.ckpt"), look("f.ckpt"), look("g.ckpt");
    usleep(300000);
    return bare("stat -c '%n %a %u %s' *.ckpt; stat -c '%n %Y' [a-g].ckpt");
}
