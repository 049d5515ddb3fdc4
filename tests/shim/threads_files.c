/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_files.c -- six threads write a file each at the same time, and rename it
 * run: captures=3 captures-all=6 modes=default,all,ring
 *
 * Right: all files, whole.
 */
#include "helper.h"
#include <pthread.h>

static void *writer(void *argument)
{
    unsigned t = (unsigned)(uintptr_t)argument;
    char from[32], to[32], *p = bytes(2 * MIB, t);
    snprintf(from, sizeof from, "t%u.tmp", t);
    snprintf(to, sizeof to, "t%u.ckpt", t);
    int fd = create(t % 2 ? from : to);
    for (unsigned i = 0; i < 6; i++) {
        put(fd, p + i, 2 * MIB - i);
        put(fd, p, t * 100 + i);
    }
    check(close(fd) == 0);
    if (t % 2)
        must(rename(from, to));
    free(p);
    return NULL;
}

int main(void)
{
    pthread_t thread[6];
    for (uintptr_t t = 0; t < 6; t++)
        check(pthread_create(&thread[t], NULL, writer, (void *)t) == 0);
    for (int t = 0; t < 6; t++)
        check(pthread_join(thread[t], NULL) == 0);
    return 0;
}
