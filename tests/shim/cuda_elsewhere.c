/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_elsewhere.c -- a copy on another device's stream, and one while another thread captures a graph
 * run: captures=2 modes=default,copied
 *
 * Right: both copies succeed as they do plainly, with the right bytes, and the capture is not voided.
 */
#include <pthread.h>

#include "cuda.h"

enum { SIZE = 3 * MIB };

static CUcontext first;
static pthread_barrier_t barrier;

static void *capture(void *unused __attribute__((unused)))
{
    CUstream stream;
    CUgraph graph;

    ok(cuCtxSetCurrent(first));
    ok(cuStreamCreate(&stream, 1));
    ok(cuStreamBeginCapture_v2(stream, 0)); /* global */
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    ok(cuStreamEndCapture(stream, &graph));
    return NULL;
}

int main(void)
{
    CUstream stream, far;
    CUdeviceptr from, there;
    CUcontext other;
    pthread_t thread;
    char *to = host(SIZE);
    int fd;

    check(setenv("EMU_DEVICES", "2", 1) == 0);
    begin();
    ok(cuCtxGetCurrent(&first));
    ok(cuStreamCreate(&stream, 1));
    from = device_memory(SIZE);
    stamp(from, SIZE, 9, stream);
    ok(cuStreamSynchronize(stream));
    ok(cuDevicePrimaryCtxRetain(&other, 1));
    ok(cuCtxSetCurrent(other));
    ok(cuStreamCreate(&far, 0));
    there = device_memory(SIZE);
    module = NULL;
    stamp(there, SIZE, 10, far);
    ok(cuStreamSynchronize(far));
    ok(cuCtxSetCurrent(first));

    fd = create("a.ckpt");
    ok(cuMemcpyDtoHAsync_v2(to, there, SIZE, far));
    check(stamped(to, SIZE, 10));
    put(fd, to, SIZE);
    pthread_barrier_init(&barrier, NULL, 2);
    check(pthread_create(&thread, NULL, capture, NULL) == 0);
    pthread_barrier_wait(&barrier);
    ok(cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    pthread_barrier_wait(&barrier);
    check(pthread_join(thread, NULL) == 0);
    check(stamped(to, SIZE, 9));
    put(fd, to, SIZE);
    return close(fd);
}
