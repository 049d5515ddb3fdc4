/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clone.c -- children made by clone and _Fork, which run no handler of fork, in mid-save
 * run: captures=1
 *
 * Right: parent and child write with one offset, in turn.
 */
#include "helper.h"
#include <sched.h>

static int fd;
static char *p;

static int child(void *argument)
{
    put(fd, p + 3, BIG - 3);
    return *(int *)argument;
}

int main(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int status = 4;
    p = bytes(BIG, 1);
    fd = create("a.ckpt");
    put(fd, p, BIG);
    reap("clone", must(clone(child, stack + sizeof stack, SIGCHLD, &status)));
    put(fd, p + 1, BIG - 1);

    /* A file that is not captured yet, and would be by a later write. */
    int other = create("b.ckpt");
    put(other, p, 10);
    pid_t pid = must(_Fork());
    if (pid == 0) {
        put(other, p + 5, BIG - 5);
        put(fd, p, BIG);
        _exit(3);
    }
    put(other, p, BIG);
    reap("_Fork", pid);
    put(fd, p + 2, BIG - 2);
    printf("%lld %lld\n", (long long)lseek(fd, 0, SEEK_CUR), (long long)lseek(other, 0, SEEK_CUR));
    printf("%lld %lld\n", size_of("a.ckpt"), size_of("b.ckpt"));
    close(other);
    must(unlink("b.ckpt")); /* who of them wrote first is not said */
    close(fd);
    show("a.ckpt");
    return 0;
}
