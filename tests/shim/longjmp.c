/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * longjmp.c -- a signal handler jumps out of a save; the program saves again
 * run: captures=1 modes=default,all,ring timeout=30
 *
 * Right: the interrupted write stands whole or not at all (the kernel lets a handler
 * run only between), and the next save works: nothing of ours stays locked or owed.
 */
#include "helper.h"
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf back;
static void jump(int number)
{
    siglongjmp(back, number);
}

int main(void)
{
    const size_t piece = 8 * MIB;
    char *p = bytes(piece, 1);
    struct sigaction action = {.sa_handler = jump};
    must(sigaction(SIGALRM, &action, NULL));
    for (volatile int round = 0; round < 10; round++) {
        volatile int fd = create("a.ckpt");
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval timer = {{0, 0}, {0, 5000 + 3000 * round}};
            must(setitimer(ITIMER_REAL, &timer, NULL));
            for (;;) {
                put(fd, p, piece);
                if (lseek(fd, 0, SEEK_CUR) > (off_t)(16 * piece))
                    check(lseek(fd, 0, SEEK_SET) == 0);
            }
        }
        struct stat st;
        must(fstat(fd, &st));
        check(st.st_size % (off_t)piece == 0 && lseek(fd, 0, SEEK_CUR) % (off_t)piece == 0);
        close(fd);
    }
    save("a.ckpt", BIG, 2);
    save("b.ckpt", BIG, 3);
    must(rename("b.ckpt", "c.ckpt"));
    show("c.ckpt");
    return 0;
}
