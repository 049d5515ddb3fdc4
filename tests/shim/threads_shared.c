/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_shared.c -- small writes of many threads at one offset, and a large one among them
 * run: captures=1 modes=default timeout=120
 *
 * Right: each write stands whole, in the order of its thread, and none over another, also
 * those that are under way when the large one begins.
 */
#include "helper.h"
#include <pthread.h>

#define THREADS 8
#define EACH 1200
#define LARGE (2 * MIB)

struct small {
    uint32_t thread, count;
    char rest[56];
};

static int fd;
static _Atomic int begun;

static void *writer(void *argument)
{
    struct small s = {.thread = (uint32_t)(uintptr_t)argument};
    for (s.count = 0; s.count < EACH; s.count++) {
        memset(s.rest, (int)s.thread, sizeof(s.rest));
        put(fd, &s, sizeof(s));
        begun = 1;
    }
    return NULL;
}

static void look(const char *name, const char *p)
{
    uint32_t next[THREADS] = {0};
    struct small s;
    int large = 0, from = must(open(name, O_RDONLY));
    char *q = malloc(LARGE);
    ssize_t n;

    while ((n = read(from, &s, sizeof(s))) == sizeof(s)) {
        if (memcmp(&s, p, sizeof(s)) == 0) {
            check(read(from, q, LARGE - sizeof(s)) == (ssize_t)(LARGE - sizeof(s)));
            check(memcmp(q, p + sizeof(s), LARGE - sizeof(s)) == 0);
            large++;
            continue;
        }
        check(s.thread < THREADS && s.count == next[s.thread]);
        next[s.thread]++;
    }
    check(n == 0 && large == 1);
    for (int i = 0; i < THREADS; i++)
        check(next[i] == EACH);
    free(q);
    close(from);
}

int main(void)
{
    char *p = bytes(LARGE, 1), name[20];
    for (int round = 0; round < 60; round++) {
        pthread_t thread[THREADS];
        snprintf(name, sizeof(name), "%d.ckpt", round % 3);
        fd = create(name);
        begun = 0;
        for (uintptr_t i = 0; i < THREADS; i++)
            check(pthread_create(&thread[i], NULL, writer, (void *)i) == 0);
        while (!begun)
            sched_yield();
        put(fd, p, LARGE);
        for (int i = 0; i < THREADS; i++)
            check(pthread_join(thread[i], NULL) == 0);
        check(close(fd) == 0);
        look(name, p);
        must(unlink(name)); /* the order is chance */
    }
    puts("all whole");
    return 0;
}
