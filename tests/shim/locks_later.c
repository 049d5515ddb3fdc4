/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locks_later.c -- a captured file is emptied and locked by another descriptor, then written again
 * run: captures=1
 *
 * Right: the lock stays: no copy of the first descriptor is closed after it was taken.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    int other = must(open("a.ckpt", O_CREAT | O_RDWR | O_TRUNC, 0644));
    must(lockf(other, F_LOCK, 0));
    must(pwrite(fd, p, BIG, 0));
    pid_t pid = must(fork());
    if (pid == 0)
        _exit(lockf(fd, F_TEST, 0) == 0 ? 1 : errno);
    reap("lock seen by a child", pid);
    must(lockf(other, F_ULOCK, 0));
    close(other);
    return close(fd);
}
