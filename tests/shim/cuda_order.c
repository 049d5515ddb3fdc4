/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_order.c -- copies behind other work, and other work behind them
 * run: captures=2 referred=70 modes=default,all,copied
 *
 * Right: each copy holds what the device's memory held at its place in its stream, and is
 * there when the call returns.
 */
#include <pthread.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

static void *release(void *flag)
{
    usleep(20000);
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void)
{
    CUdeviceptr from;
    CUstream one, two;
    CUevent event;
    pthread_t thread;
    void *flag;
    char *to;
    int fd;

    begin();
    from = device_memory(SIZE);
    to = host(SIZE);
    ok(cuStreamCreate(&one, 1)); /* not blocking: legacy stream does not order it */
    ok(cuStreamCreate(&two, 1));
    ok(cuEventCreate(&event, 2));
    fd = create("a.ckpt");
    for (uint32_t i = 0; i < 6; i++) {
        /* Behind a slow kernel of its stream. */
        spin(10, one);
        stamp(from, SIZE, i, one);
        ok(cuMemcpyDtoHAsync_v2(to, from, SIZE, one));
        stamp(from, SIZE, 1000, one);
        check(stamped(to, SIZE, i));
        put(fd, to, SIZE);
        ok(cuStreamSynchronize(one));
        /* Behind an event of another. */
        spin(10, two);
        stamp(from, SIZE, 10 + i, two);
        ok(cuEventRecord(event, two));
        ok(cuStreamWaitEvent(one, event, 0));
        ok(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, SIZE, one));
        stamp(from, SIZE, 1000, two);
        check(stamped(to, SIZE, 10 + i));
        put(fd, to, SIZE);
        ok(cuStreamSynchronize(two));
        /* Behind what the host lets go meanwhile. */
        ok(cuMemHostAlloc(&flag, 4096, 0));
        *(uint32_t *)flag = 0;
        hold(flag, 1, one);
        stamp(from, SIZE, 20 + i, one);
        check(pthread_create(&thread, NULL, release, flag) == 0);
        ok(cuMemcpyDtoHAsync_v2(to, from, SIZE, one));
        check(stamped(to, SIZE, 20 + i));
        put(fd, to, SIZE);
        pthread_join(thread, NULL);
        ok(cuMemFreeHost(flag));
        /* The default stream waits for those that block. */
        stamp(from, SIZE, 30 + i, NULL);
        ok(cuMemcpy((CUdeviceptr)(uintptr_t)to, from, SIZE));
        check(stamped(to, SIZE, 30 + i));
        put(fd, to, SIZE);
    }
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
