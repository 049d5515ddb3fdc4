/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_fork.c -- a child that has its parent's memory, and lives on
 * run: captures=2 modes=default,ring,copied
 */
#include <sched.h>
#include <sys/syscall.h>

#include "cuda.h"

enum { SIZE = 3 * MIB };

static char *to;

static int child(void *arguments)
{
    int *pipes = arguments;
    char go;

    alarm(5);
    check(read(pipes[0], &go, 1) == 1);
    _exit(stamped(to, SIZE, 1) ? 0 : 1);
}

int main(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int fd, pipes[2];
    pid_t pid[4];

    begin();
    to = host(SIZE);
    must(pipe(pipes));
    for (unsigned i = 0; i < 4; i++) {
        fd = create(i % 2 ? "a.ckpt" : "b.ckpt");
        copy(to, SIZE, 1);
        fflush(stdout);
        switch (i) {
        case 0:
            pid[i] = must(fork());
            break;
        case 1:
            pid[i] = must(_Fork());
            break;
        case 2:
            pid[i] = must(clone(child, stack + sizeof(stack), SIGCHLD, pipes));
            break;
        case 3:
            pid[i] = (pid_t)must(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0l));
            break;
        }
        if (pid[i] == 0)
            child(pipes);
        put(fd, to, SIZE);
        copy(to, SIZE, 2);
        close(fd);
        fd = create(i % 2 ? "c.ckpt" : "d.ckpt");
        churn(fd);
        put(fd, to, SIZE);
        close(fd);
    }
    check(write(pipes[1], "gogo", 4) == 4);
    for (unsigned i = 0; i < 4; i++)
        reap("child", pid[i]);
    show("a.ckpt");
    show("c.ckpt");
    return 0;
}
