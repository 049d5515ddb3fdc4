/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vfork.c -- vfork, redirections in the child, exec; vfork and a failing exec
 * run: captures=1
 *
 * Right: the child's calls change nothing in the parent, whose memory it shares.
 */
#include "helper.h"
#include <sched.h>

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt"), log = create("log");
    put(fd, p, BIG);
    for (int i = 0; i < 3; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            dup2(log, 1);
            close(fd);
            if (i == 2)
                _exit(3);
            execl(i ? "/nowhere" : "/bin/echo", "echo", "child", (char *)0);
            _exit(127);
        }
        reap("vfork", must(pid));
        put(fd, p + i, BIG - (size_t)i);
        put(log, "parent\n", 7);
    }
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(fd, 1);
        execl("/bin/echo", "echo", "into the file", (char *)0);
        _exit(127);
    }
    reap("vfork", must(pid));
    put(fd, p, 100);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    show("a.ckpt");
    return 0;
}
