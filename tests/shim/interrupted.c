/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interrupted.c -- files are opened while they are drained, by a program that a timer interrupts
 * run: captures=6 modes=default,all,ring
 *
 * Right: an open of a regular file never fails with EINTR, in whichever way, nor in a child that knows of no agent;
 * that of a FIFO does, as ever.
 */
#include "helper.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    check(number == SIGALRM);
    ticks++;
}

static void timer(int microseconds)
{
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    must(setitimer(ITIMER_REAL, &every, NULL));
}

/* Is just being drained when this returns. */
static void busy(int round)
{
    char *p = bytes(24 * MIB, round);
    int fd = create("a.ckpt");
    timer(0);
    put(fd, p, 24 * MIB);
    close(fd);
    free(p);
    timer(2000);
}

static void done(const char *title, int fd)
{
    printf("%s: %s\n", title, fd >= 0 ? "opened" : strerror(errno));
    close(fd);
}

static void stream(const char *title, FILE *file)
{
    printf("%s: %s\n", title, file != NULL ? "opened" : strerror(errno));
    if (file != NULL)
        fclose(file);
}

int main(int count, char **word)
{
    struct sigaction action = {.sa_handler = tick}; /* not SA_RESTART */
    must(sigaction(SIGALRM, &action, NULL));
    if (count > 1) {
        timer(2000);
        done("another program", open(word[1], O_RDONLY));
        return 0;
    }
    busy(1);
    done("open", open("a.ckpt", O_RDONLY));
    busy(2);
    done("openat", openat(AT_FDCWD, "a.ckpt", O_RDWR));
    busy(3);
    done("creat", creat("a.ckpt", 0644));
    busy(4);
    stream("fopen", fopen("a.ckpt", "r"));
    busy(5);
    stream("fopen to write", fopen("a.ckpt", "r+"));
    busy(6);
    FILE *other = fopen("other", "w");
    stream("freopen", freopen("a.ckpt", "r", other));
    busy(7);
    fflush(stdout);
    pid_t pid = must(fork());
    if (pid == 0) {
        timer(2000);
        done("child", open("a.ckpt", O_RDONLY));
        fflush(stdout);
        _exit(0);
    }
    while (waitid(P_PID, pid, &(siginfo_t){0}, WEXITED | WNOWAIT) < 0)
        check(errno == EINTR);
    timer(0);
    reap("child", pid);
    busy(8);
    timer(0);
    fflush(stdout);
    if ((pid = must(fork())) == 0) {
        execl("/proc/self/exe", word[0], "a.ckpt", (char *)0);
        _exit(1);
    }
    reap("other", pid);
    timer(2000);
    must(mkfifo("fifo", 0600));
    done("fifo", open("fifo", O_RDONLY));
    timer(0);
    check(ticks > 0);
    show("a.ckpt");
    return 0;
}
