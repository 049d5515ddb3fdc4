/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child_writes.c -- a child goes on writing a file that its parent closes; so does a thread
 * by another description
 * run: captures=1
 *
 * Right: nothing that we do at close cuts off what somebody else is just writing.
 */
#include "helper.h"
#include <pthread.h>

#define ROUNDS 8
#define WRITES 32

static char *p;

static void *write_on(void *name)
{
    int fd = must(open(name, O_WRONLY | O_APPEND));
    for (int i = 0; i < WRITES; i++)
        put(fd, p, MIB);
    close(fd);
    return NULL;
}

int main(void)
{
    p = bytes(8 * MIB, 1);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        int fd = create("a.ckpt");
        put(fd, p, 8 * MIB);
        pid_t pid = must(fork());
        if (pid == 0) {
            for (int j = 0; j < WRITES; j++)
                put(fd, p, MIB);
            _exit(0);
        }
        usleep(1000u * (unsigned)(i + 1));
        close(fd);
        reap("child", pid);
        show("a.ckpt");

        fd = create("b.ckpt");
        put(fd, p, 8 * MIB);
        check(pthread_create(&thread, NULL, write_on, "b.ckpt") == 0);
        usleep(1000u * (unsigned)(i + 1));
        close(fd);
        check(pthread_join(thread, NULL) == 0);
        show("b.ckpt");
    }
    return 0;
}
