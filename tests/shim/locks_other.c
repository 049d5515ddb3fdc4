/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locks_other.c -- a large write on a file that another descriptor of the program has locked
 * run: captures=0
 *
 * Right: the lock stays; nothing is captured, as it is open twice, and the descriptor is
 * left as it was.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int locked = must(open("a.ckpt", O_CREAT | O_RDWR, 0644)), fd = create("a.ckpt");
    must(lockf(locked, F_LOCK, 0));
    put(fd, p, BIG);
    printf("owner %d\n", fcntl(fd, F_GETOWN));
    fflush(stdout);
    pid_t pid = must(fork());
    if (pid == 0)
        _exit(lockf(fd, F_TEST, 0) == 0 ? 1 : errno);
    reap("lock seen by a child", pid);
    must(lockf(locked, F_ULOCK, 0));
    close(locked);
    return close(fd);
}
