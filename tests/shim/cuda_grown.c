/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_grown.c -- promised memory is made longer, while it is protected, and where it stands; others write to it meanwhile
 * run: captures=2 modes=default,copied
 *
 * Right: what is new are zeros. Where it may not move others may write to it meanwhile, and
 * nothing of that is lost; it may be refused.
 */
#include <pthread.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

static _Atomic int over;

/* Counts in a word of each page. */
static void *count(void *argument)
{
    volatile uint32_t *words = argument;
    uint32_t n = 0;

    while (!over) {
        n++;
        for (size_t i = 0; i < SIZE / 4; i += 1024)
            words[i] = n;
        for (size_t i = 0; i < SIZE / 4; i += 1024)
            check(words[i] == n);
    }
    return NULL;
}

int main(void)
{
    char *one = anonymous(SIZE), *two = anonymous(SIZE), *longer;
    pthread_t thread;
    int fd;

    begin();
    fd = create("a.ckpt");
    put(fd, "x", 1);
    copy(one, SIZE, 5);
    check(mprotect(one, SIZE, PROT_NONE) == 0);
    check((longer = mremap(one, SIZE, 2 * SIZE, MREMAP_MAYMOVE)) != MAP_FAILED);
    check(mprotect(longer, 2 * SIZE, PROT_READ | PROT_WRITE) == 0);
    check(stamped(longer, SIZE, 5) && zeros(longer + SIZE, SIZE));
    for (unsigned i = 0; i < 50; i++) {
        over = 0;
        copy(two, SIZE, i);
        check(pthread_create(&thread, NULL, count, two) == 0);
        if (mremap(two, SIZE, SIZE + 4096, 0) != MAP_FAILED)
            check(munmap(two + SIZE, 4096) == 0);
        /* KSM may not be there. */
        check(madvise(two, SIZE, MADV_KEEPONFORK) == 0);
        check(madvise(two, SIZE, MADV_MERGEABLE) == 0 || errno == EINVAL);
        usleep(1000);
        over = 1;
        check(pthread_join(thread, NULL) == 0);
    }
    put(fd, longer, SIZE);
    return close(fd);
}
