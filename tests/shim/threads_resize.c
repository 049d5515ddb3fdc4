/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_resize.c -- one thread makes a file shorter while another writes it
 * run: captures=1
 *
 * Right: whichever comes last, what is appended next is behind all bytes.
 */
#include "helper.h"
#include <pthread.h>
#include <sched.h>

#define ROUNDS 1000
#define PIECE 100000

static int fd;
static _Atomic int begun, over;

static void *resize(void *argument)
{
    for (int round = 1; round <= ROUNDS; round++) {
        while (begun < round)
            sched_yield();
        must(ftruncate(fd, 100));
        over = round;
    }
    return argument;
}

int main(void)
{
    char *p = bytes(BIG, 1), *q = malloc(BIG);
    pthread_t thread;
    int wrong = 0;

    fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, MIB);
    check(pthread_create(&thread, NULL, resize, NULL) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        begun = round;
        for (volatile int i = 0; i < round % 100 * 100; i++)
            ;
        put_at(fd, p, PIECE, 0);
        while (over < round)
            sched_yield();
        off_t end = must(lseek(fd, 0, SEEK_END));
        put(fd, "end", 3);
        check(end == 100 || end == PIECE);
        wrong += pread(fd, q, BIG, 0) != (ssize_t)end + 3 || memcmp(q + end, "end", 3) != 0;
    }
    check(pthread_join(thread, NULL) == 0);
    printf("%d wrong\n", wrong);
    check(close(fd) == 0);
    return unlink("a.ckpt"); /* its size is chance */
}
