/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity.c -- the program changes its user, its root directory, its name, between saves
 * run: root captures=1
 *
 * Right: files, owners and errors as without the shim.
 */
#include "helper.h"
#include <sys/prctl.h>

int main(void)
{
    char *p = bytes(BIG, 1);
    must(mkdir("d", 0777)), must(chmod("d", 0777));
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    must(setegid(65534)), must(seteuid(65534));
    put(fd, p + 1, BIG - 1);
    save("d/b.ckpt", BIG, 2);
    errno = 0;
    printf("%d %d\n", open("c.ckpt", O_CREAT | O_WRONLY, 0644), errno);
    must(rename("d/b.ckpt", "d/c.ckpt"));
    close(fd);
    show("d/c.ckpt");
    must(seteuid(0)), must(setegid(0));
    save("e.ckpt", BIG, 3);
    must(prctl(PR_SET_DUMPABLE, 0)), must(prctl(PR_SET_NAME, "another"));
    save("f.ckpt", BIG, 4);
    fflush(stdout);
    pid_t pid = must(fork());
    if (pid == 0) {
        must(setgid(65534)), must(setuid(65534));
        save("d/g.ckpt", BIG, 5);
        must(rename("d/g.ckpt", "d/h.ckpt"));
        show("d/h.ckpt");
        exit(0);
    }
    reap("child", pid);
    must(chroot("d"));
    must(chdir("/"));
    save("/i.ckpt", BIG, 6);
    must(rename("/i.ckpt", "/j.ckpt"));
    show("j.ckpt");
    return 0;
}
