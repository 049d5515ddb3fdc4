/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signal.c -- a timer's handler writes, renames and stats while the program saves
 * run: captures=2 modes=default,all,ring
 *
 * Right: no deadlock; the handler's bytes stand where it put them; no write is cut
 * short or fails with EINTR.
 */
#include "helper.h"
#include <sys/time.h>

static int fd, other;
static volatile int runs;
static char mark[3000];

static void tick(int number)
{
    int error = errno;
    struct stat st;
    check(number == SIGALRM);
    put_at(fd, mark, sizeof mark, 64 * MIB);
    put_at(other, mark, sizeof mark, 0);
    check(fstat(fd, &st) == 0 && lseek(fd, 0, SEEK_CUR) >= 0);
    if (runs++ % 50 == 0) {
        int t = create("t.ckpt.tmp");
        put(t, mark, sizeof mark);
        close(t);
        must(rename("t.ckpt.tmp", "t.ckpt"));
    }
    errno = error;
}

int main(void)
{
    char *p = bytes(BIG, 1);
    fill(mark, sizeof mark, 5);
    fd = create("a.ckpt"), other = create("b.ckpt");
    struct sigaction action = {.sa_handler = tick};
    must(sigaction(SIGALRM, &action, NULL));
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    put(fd, p, BIG);
    put(other, p, BIG);
    must(setitimer(ITIMER_REAL, &timer, NULL));
    for (int i = 0; i < 12 || runs < 60; i++) {
        check(lseek(fd, (off_t)(i % 12) * (off_t)BIG, SEEK_SET) >= 0);
        put(fd, p + i % 12, BIG - (size_t)(i % 12));
        put(other, p, 100 - (i < 12 ? 0 : 100));
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &timer, NULL));
    close(fd), close(other);
    show("t.ckpt");
    return 0;
}
