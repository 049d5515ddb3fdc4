/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interval.c -- saves with pauses in which the program only computes, or only sleeps
 * run: captures=2
 *
 * Right: the file is whole soon after close though the program makes no call; a
 * child that is forked then sees it too.
 */
#include "helper.h"
#include <time.h>

int main(void)
{
    for (int round = 0; round < 1; round++) {
        save("a.ckpt", 16 * MIB, (uint64_t)round);
        struct timespec t;
        volatile uint64_t x = 0;
        clock_gettime(CLOCK_MONOTONIC, &t);
        for (time_t end = t.tv_sec + 2; t.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &t))
            for (int i = 0; i < 100000; i++)
                x = x + (uint64_t)i;
        bare("stat -c %s a.ckpt");
        save("b.ckpt", 16 * MIB, (uint64_t)round + 2);
        usleep(700000);
        bare("stat -c %s b.ckpt");
    }
    return 0;
}
