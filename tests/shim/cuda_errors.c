/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_errors.c -- what CUDA says of wrong calls, at each call, while a save is under way
 * run: captures=2 modes=default,all,copied
 */
#include "cuda.h"

enum { SIZE = 2 * MIB };

int main(void)
{
    CUdeviceptr from;
    CUcontext context;
    CUstream stream;
    char *to;
    int fd;

    begin();
    from = device_memory(SIZE);
    to = host(SIZE);
    memset(to, 'e', SIZE);
    fd = create("a.ckpt");
    put(fd, to, SIZE);
    printf("too much: %d\n", cuMemcpyDtoH_v2(to, from, 64 * MIB));
    printf("no device memory: %d\n", cuMemcpyDtoH_v2(to, (CUdeviceptr)(uintptr_t)(to + 8), MIB));
    printf("freed: %d\n", (cuMemFree_v2(from), cuMemcpyDtoH_v2(to, from, SIZE)));
    from = device_memory(SIZE);
    ok(cuStreamCreate(&stream, 0));
    stamp(from, SIZE, 1, stream);
    printf("good: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    check(stamped(to, SIZE, 1));
    stamp(0x1000, SIZE, 1, stream);
    printf("behind a bad kernel: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    printf("again: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    printf("later: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
    ok(cuDevicePrimaryCtxReset_v2(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    module = NULL;
    from = device_memory(SIZE);
    stamp(from, SIZE, 2, NULL);
    printf("after a reset: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
    check(stamped(to, SIZE, 2));
    put(fd, to, SIZE);
    ok(cuCtxSetCurrent(NULL));
    printf("without a context: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
    check(close(fd) == 0);
    return 0;
}
