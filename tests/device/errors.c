/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.c -- what CUDA says of wrong calls, at each call, while a save is under way
 *
 * For scripts/device-check: what it prints is to be the same with the shim. As cuda_errors of
 * tests/shim, without what a device cannot do once more after an error that sticks.
 */
#include "../shim/helper.h"

#define ok(call) check((call) == CUDA_SUCCESS)

#include "../emu/api.h"
#include "../emu/kernels.h"

enum { SIZE = 2 * MIB };

static CUdeviceptr from;
static CUstream stream;
static char *to;

static void begin(void)
{
    CUcontext context;

    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    from = device_memory(SIZE);
    to = malloc(SIZE);
    check(to != NULL);
    memset(to, 'e', SIZE);
    stamp(from, SIZE, 1, stream);
}

static void ordinary(void)
{
    CUdeviceptr gone = device_memory(64 * MIB);

    ok(cuMemFree_v2(gone));
    printf("nothing: %d\n", cuMemcpyDtoH_v2(to, from, 0));
    printf("from 0: %d\n", cuMemcpyDtoH_v2(to, 0, SIZE));
    printf("freed: %d\n", cuMemcpyDtoHAsync_v2(to, gone, SIZE, stream));
    printf("good: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    check(stamped(to, SIZE, 1));
}

/* Into pageable memory none may be captured; that voids the capture, once, with the same error. */
static void captured(void)
{
    CUgraph graph = NULL;

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    printf("into a graph: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    printf("its end: %d\n", cuStreamEndCapture(stream, &graph));
    if (graph != NULL)
        ok(cuGraphDestroy(graph));
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    printf("beside one: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
    printf("its end: %d\n", cuStreamEndCapture(stream, &graph));
    printf("after both: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
}

static void sticking(void)
{
    launch("fault", stream, NULL, NULL, NULL);
    printf("behind a bad kernel: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    printf("again: %d\n", cuMemcpyDtoHAsync_v2(to, from, SIZE, stream));
    printf("later: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
    ok(cuCtxSetCurrent(NULL));
    printf("without a context: %d\n", cuMemcpyDtoH_v2(to, from, SIZE));
}

int main(void)
{
    int fd;

    save("first.ckpt", BIG, 1);
    begin();
    fd = create("a.ckpt");
    put(fd, to, SIZE);
    ordinary();
    put(fd, to, SIZE);
    captured();
    put(fd, to, SIZE);
    sticking();
    put(fd, bytes(SIZE, 5), SIZE);
    check(close(fd) == 0);
    return 0;
}
