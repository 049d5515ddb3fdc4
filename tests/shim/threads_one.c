/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_one.c -- four threads write one file: places of their own, then the shared offset
 * run: captures=2
 *
 * Right: each byte in its place; with the shared offset each write stands whole
 * and none over another.
 */
#include "helper.h"
#include <pthread.h>

#define PIECE (MIB + 4096)
static int fd;

static void *placed(void *argument)
{
    size_t t = (size_t)argument;
    for (size_t i = 0; i < 4; i++) {
        char *p = bytes(PIECE, 4 * i + t);
        put_at(fd, p, PIECE, (off_t)((4 * i + t) * PIECE));
        free(p);
    }
    return NULL;
}

static void *shared(void *argument)
{
    for (size_t i = 0; i < 4; i++) {
        char *p = bytes(PIECE, 4 * i + (size_t)argument);
        *p = (char)(4 * i + (size_t)argument);
        put(fd, p, PIECE);
        free(p);
    }
    return NULL;
}

static void all(void *(*work)(void *))
{
    pthread_t thread[4];
    for (uintptr_t t = 0; t < 4; t++)
        check(pthread_create(&thread[t], NULL, work, (void *)t) == 0);
    for (int t = 0; t < 4; t++)
        check(pthread_join(thread[t], NULL) == 0);
    check(close(fd) == 0);
}

int main(void)
{
    fd = create("placed.ckpt");
    all(placed);
    fd = create("shared.ckpt");
    all(shared);
    fd = must(open("shared.ckpt", O_RDONLY));
    char *p = malloc(PIECE);
    for (int i = 0, seen = 0; i < 16; i++) {
        check(read(fd, p, PIECE) == (ssize_t)PIECE);
        char *q = bytes(PIECE, (uint64_t)*p);
        check(memcmp(p + 1, q + 1, PIECE - 1) == 0 && !(seen & 1 << *p));
        seen |= 1 << *p;
        free(q);
    }
    printf("rest %zd\n", read(fd, p, 1));
    return unlink("shared.ckpt"); /* its order is chance */
}
