/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handler_exit.c -- a signal handler saves and ends the program in the middle of a save
 * run: captures=4 timeout=30
 *
 * Right: it ends, with that status; what write had taken is there, in whole writes.
 */
#include "helper.h"
#include <sys/time.h>

static int way;
static void handler(int number)
{
    save("last.ckpt", BIG, (uint64_t)number);
    if (way % 3 == 0)
        exit(7);
    if (way % 3 == 1)
        _exit(8);
    abort();
}

int main(void)
{
    const size_t piece = 6 * MIB;
    char *p = bytes(piece, 1), name[24];
    for (way = 0; way < 9; way++) {
        snprintf(name, sizeof name, "%d.ckpt", way);
        fflush(stdout);
        pid_t pid = must(fork());
        if (pid == 0) {
            signal(SIGALRM, handler);
            struct itimerval timer = {{0, 0}, {0, 3000 + 4000 * way}};
            int fd = create(name);
            must(setitimer(ITIMER_REAL, &timer, NULL));
            for (;;) {
                put(fd, p, piece);
                if (lseek(fd, 0, SEEK_CUR) > (off_t)(8 * piece))
                    check(lseek(fd, 0, SEEK_SET) == 0);
            }
        }
        reap(name, pid);
        char command[64];
        snprintf(command, sizeof command, "expr $(stat -c %%s %s) %% %zu", name, piece);
        bare(command);
        bare("sha256sum last.ckpt");
        must(unlink(name));
    }
    return 0;
}
