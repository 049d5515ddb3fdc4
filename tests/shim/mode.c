/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mode.c -- modes, umask and groups of new files: open, creat, mkstemp, a set-group-ID directory
 * run: captures=4
 *
 * Right: the kernel's own, before and after the drain; an existing file keeps its mode.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1), temporary[] = "XXXXXX.ckpt";
    umask(027);
    must(mkdir("d", 0777));
    if (geteuid() == 0)
        must(chown("d", 11, 22));
    must(chmod("d", 02775));
    static const int modes[] = {0666, 0600, 0444, 0, 0755, 04711};
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d.ckpt", i % 2 ? "d/" : "", i);
        int fd = must(open(name, O_CREAT | O_EXCL | O_WRONLY, modes[i]));
        put(fd, p + i, BIG - (size_t)i);
        close(fd);
        struct stat st;
        must(stat(name, &st));
        printf("%s: %o, group %d\n", name, st.st_mode, (int)st.st_gid);
    }
    must(chmod("0.ckpt", 0604));
    save("0.ckpt", BIG, 7);
    int fd = must(mkstemps(temporary, 5));
    put(fd, p, BIG);
    close(fd);
    must(rename(temporary, "m.ckpt"));
    umask(0);
    fd = must(creat("c.ckpt", 0666));
    put(fd, p, BIG);
    return close(fd);
}
