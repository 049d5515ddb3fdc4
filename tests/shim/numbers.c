/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * numbers.c -- descriptor numbers, children, signals, session, errno: what a program may notice
 * run: captures=2
 *
 * Right: the lowest free number each time, no child to wait for, no signal, and
 * errno untouched by calls that succeed.
 */
#include "helper.h"

static volatile int signals;
static void count(int number)
{
    (void)number;
    signals++;
}

int main(void)
{
    char *p = bytes(BIG, 1);
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP && i != SIGSEGV && i != SIGBUS)
            signal(i, count);
    sigset_t before, after;
    sigprocmask(SIG_SETMASK, NULL, &before);
    int a = create("a.ckpt");
    errno = 4242;
    put(a, p, BIG);
    int b = create("b.ckpt");
    put(b, p, BIG);
    put(a, p, 5);
    int c = must(open("/dev/null", O_RDONLY)), d = must(dup(c)), pipe_[2];
    must(pipe(pipe_));
    printf("%d %d %d %d %d %d, errno %d\n", a, b, c, d, pipe_[0], pipe_[1], errno);
    close(a);
    a = create("c.ckpt");
    put(a, p, BIG);
    must(rename("b.ckpt", "d.ckpt"));
    printf("%d, errno %d\n", a, errno);
    close(a), close(b);
    usleep(300000);
    errno = 0;
    pid_t child = waitpid(-1, NULL, WNOHANG);
    printf("child %d %d, signals %d\n", child, errno, signals);
    sigprocmask(SIG_SETMASK, NULL, &after);
    printf("mask %d, cwd %d, session %d\n", memcmp(&before, &after, sizeof before),
           access("a.ckpt", F_OK), getsid(0) == getpgrp());
    a = create("e.ckpt");
    put(a, p, BIG);
    printf("%d\n", a);
    return close(a);
}
