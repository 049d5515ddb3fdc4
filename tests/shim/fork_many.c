/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork_many.c -- workers come and go while the parent saves: _exit, exit, a signal, exec
 * run: captures=1 captures-all=6
 *
 * Right: the parent's files are whole and the workers' ends disturb nothing.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1), name[16];
    pid_t pid[24];
    for (int i = 0; i < 24; i++) {
        snprintf(name, sizeof name, "%d.ckpt", i / 4);
        int fd = must(open(name, O_CREAT | O_WRONLY | (i % 4 ? 0 : O_TRUNC), 0644));
        check(lseek(fd, 0, SEEK_END) >= 0);
        put(fd, p + i, MIB + (size_t)i);
        pid[i] = must(fork());
        if (pid[i] == 0) {
            usleep(1000u * (unsigned)(i % 5));
            if (i % 4 == 0)
                _exit(0);
            if (i % 4 == 1)
                exit(0);
            if (i % 4 == 2)
                raise(SIGKILL);
            execl("/bin/true", "true", (char *)0);
            _exit(1);
        }
        put(fd, p, 1000);
        close(fd);
    }
    for (int i = 0; i < 24; i++)
        reap("worker", pid[i]);
    return 0;
}
