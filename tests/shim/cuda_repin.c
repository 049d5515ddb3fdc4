/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_repin.c -- one thread copies while another one's call finds that the ring has grown
 * run: captures=2 modes=default,copied timeout=120
 *
 * That call gives back what is pinned, and pins anew. Right: a copy that begins meanwhile does as
 * plainly, and does not go into memory that is just being given back.
 */
#include <pthread.h>

#include "cuda.h"

enum { SIZE = 8 * MIB, LARGE = 64 * MIB };

static CUcontext context;
static CUdeviceptr from;
static CUstream stream;
static pthread_barrier_t barrier;

/* 80 ms and more; begins while the other one waits. */
static void *saves(void *argument)
{
    uint32_t *round = argument;
    char name[] = {(char)('a' + *round), '.', 'c', 'k', 'p', 't', 0}, *to = host(SIZE);
    int fd;

    ok(cuCtxSetCurrent(context));
    stamp(from, SIZE, *round, stream);
    ok(cuStreamSynchronize(stream));
    pthread_barrier_wait(&barrier);
    usleep(20000);
    fd = create(name);
    printf("%d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    check(stamped(to, SIZE, *round));
    put(fd, to, SIZE);
    check(close(fd) == 0);
    free(to);
    return NULL;
}

int main(void)
{
    char *large = bytes(LARGE, 1), small[8];
    CUstream slow;
    pthread_t thread;
    int fd;

    check(setenv("EMU_BANDWIDTH", "100M", 1) == 0);
    begin();
    alarm(60);
    ok(cuCtxGetCurrent(&context));
    from = device_memory(SIZE);
    ok(cuStreamCreate(&stream, 1));
    ok(cuStreamCreate(&slow, 1));
    pthread_barrier_init(&barrier, NULL, 2);
    for (uint32_t round = 0; round < 4; round++) {
        fd = create("large.ckpt"); /* the ring grows */
        for (uint32_t i = 0; i <= round; i++)
            put(fd, large, LARGE);
        check(close(fd) == 0);
        usleep(100000);
        check(pthread_create(&thread, NULL, saves, &round) == 0);
        pthread_barrier_wait(&barrier);
        spin(80, slow); /* what is given back is waited for */
        ok(cuMemcpyDtoHAsync_v2(small, from, 8, stream));
        check(pthread_join(thread, NULL) == 0);
        for (unsigned i = 0; i < 10; i++)
            ok(cuMemcpyDtoHAsync_v2(small, from, 8, stream));
    }
    show("a.ckpt");
    return 0;
}
