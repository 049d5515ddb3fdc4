/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_text.c -- one thread writes lines with dprintf, others with write, at one offset
 * run: captures=4
 *
 * Right: no line is lost or over another.
 */
#include "helper.h"
#include <pthread.h>

#define THREADS 4
#define LINES 1500

static int fd;

static void *writer(void *argument)
{
    int thread = (int)(intptr_t)argument;
    char line[40];
    for (int i = 0; i < LINES; i++)
        if (thread == 0) {
            check(dprintf(fd, "thread %d, %08d, by dprintf \n", thread, i) == 32);
            usleep(20);
        } else {
            snprintf(line, sizeof(line), "thread %d, %08d, by write   \n", thread, i);
            put(fd, line, 32);
        }
    return NULL;
}

int main(void)
{
    char *p = bytes(BIG, 1);
    for (int round = 0; round < 4; round++) {
        pthread_t thread[THREADS];
        char line[40] = "";
        int next[THREADS] = {0};

        fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
        put(fd, p, BIG);
        for (intptr_t t = 0; t < THREADS; t++)
            check(pthread_create(&thread[t], NULL, writer, (void *)t) == 0);
        for (int t = 0; t < THREADS; t++)
            check(pthread_join(thread[t], NULL) == 0);
        check(lseek(fd, BIG, SEEK_SET) == (off_t)BIG);
        while (read(fd, line, 32) == 32) {
            int t = line[7] - '0', i = atoi(line + 10);
            check(t >= 0 && t < THREADS && line[31] == '\n' && next[t]++ == i);
        }
        for (int t = 0; t < THREADS; t++)
            printf("%d ", next[t]);
        check(close(fd) == 0);
    }
    printf("\n");
    return unlink("a.ckpt"); /* the order is chance */
}
