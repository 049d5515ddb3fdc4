/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_small.c -- one thread's first large write, another's small one beyond it meanwhile
 * run: captures=1
 *
 * Right: it counts in the size, and what is appended is behind it.
 */
#include "helper.h"
#include <pthread.h>

static int fd, delay;
static pthread_barrier_t begin;

static void *small(void *argument)
{
    pthread_barrier_wait(&begin);
    usleep((useconds_t)delay);
    put_at(fd, "small", 5, 2 * BIG);
    return argument;
}

int main(void)
{
    char *p = bytes(BIG, 1), name[20];
    check(pthread_barrier_init(&begin, NULL, 2) == 0);
    for (int round = 0; round < 60; round++) {
        pthread_t thread;
        snprintf(name, sizeof(name), "%d.ckpt", round % 3);
        fd = create(name);
        delay = round * 10;
        check(pthread_create(&thread, NULL, small, NULL) == 0);
        pthread_barrier_wait(&begin);
        put_at(fd, p, BIG, 0);
        check(pthread_join(thread, NULL) == 0);
        printf("%lld", size_of(name));
        printf(" %lld\n", (long long)must(lseek(fd, 0, SEEK_END)));
        put(fd, "end", 3);
        check(close(fd) == 0);
    }
    show("0.ckpt"), show("1.ckpt"), show("2.ckpt");
    return 0;
}
