/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.c -- a thread that does nothing but save is cancelled
 * run: captures=1 timeout=20
 *
 * Right: write is a cancellation point; the next save works.
 */
#include "helper.h"
#include <pthread.h>

static char *p;

static void *forever(void *argument)
{
    int fd = create(argument);
    for (;;) {
        put(fd, p, 4 * MIB);
        check(lseek(fd, 0, SEEK_SET) == 0);
    }
    return NULL;
}

int main(void)
{
    p = bytes(4 * MIB, 1);
    for (int i = 0; i < 5; i++) {
        char name[16];
        pthread_t thread;
        void *end = NULL;
        snprintf(name, sizeof name, "%d.ckpt", i);
        check(pthread_create(&thread, NULL, forever, name) == 0);
        while (access(name, F_OK) != 0) /* until it saves */
            usleep(1000);
        usleep(30000);
        check(pthread_cancel(thread) == 0 && pthread_join(thread, &end) == 0);
        printf("%d %lld\n", end == PTHREAD_CANCELED, size_of(name) % (long long)(4 * MIB));
        save("next.ckpt", BIG, (uint64_t)i);
        must(rename("next.ckpt", name));
    }
    return 0;
}
