/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_guard.c -- promised memory is given up: with a guard, without a descriptor left, from a thread that outlives the first
 * run: captures=2 modes=default,copied
 *
 * Right: zeros are there, as in all anonymous memory, not what the ring has at that place.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "cuda.h"

#define GUARD_INSTALL 102 /* Linux 6.13 */
#define GUARD_REMOVE 103

static CUcontext context;
static int fd;

static char *promised(void)
{
    char *to = anonymous(4 * MIB);

    copy(to, 4 * MIB, 1);
    put(fd, to, 4 * MIB);
    return to;
}

static void *rest(void *unused __attribute__((unused)))
{
    char *to;

    ok(cuCtxSetCurrent(context));
    usleep(100000); /* the first thread has ended */
    to = promised();
    check(madvise(to + MIB, MIB, MADV_DONTNEED) == 0 && zeros(to + MIB, MIB));
    check(close(fd) == 0);
    exit(0);
}

int main(void)
{
    struct rlimit limit, none;
    pthread_t thread;
    char *to, *longer;

    begin();
    ok(cuCtxGetCurrent(&context));
    fd = create("a.ckpt");
    to = promised();
    if (madvise(to + MIB, MIB, GUARD_INSTALL) == 0)
        check(madvise(to + MIB, MIB, GUARD_REMOVE) == 0 && zeros(to + MIB, MIB));
    to = promised();
    check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = (struct rlimit){3, limit.rlim_max};
    check(setrlimit(RLIMIT_NOFILE, &none) == 0);
    check(madvise(to + MIB, MIB, MADV_DONTNEED) == 0 && zeros(to + MIB, MIB));
    check((longer = mremap(to, 4 * MIB, 5 * MIB, MREMAP_MAYMOVE)) != MAP_FAILED && zeros(longer + 4 * MIB, MIB));
    check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    check(pthread_create(&thread, NULL, rest, NULL) == 0);
    pthread_exit(NULL);
}
