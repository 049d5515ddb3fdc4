/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_shapes.c -- copies of rectangles, boxes and batches into memory that is promised
 * run: captures=2 referred=5 modes=default,ring,copied
 *
 * These pass as they are. Right: what they wrote to is as they left it, the rest of the memory and of
 * its pages still has the older copy's bytes, in memory and in files, whatever becomes of the ring.
 */
#include "cuda.h"

enum { SIZE = 3 * MIB, PITCH = 5000, WIDTH = 3000, ROWS = 500 };

/* CUDA 13's runtime. */
int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                 int kind);
int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                      int kind, CUstream stream);
int cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                         CUmemcpyAttributes *attributes, size_t *indices, size_t attributes_count, CUstream stream);

static CUdeviceptr from;
static CUstream stream;
static char *to, *model;
static int fd;

/* What the device has at `at`, as stamp() with this seed wrote it. */
static void expect(size_t place, size_t at, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i += 4) {
        uint32_t word = seed + (uint32_t)((at + i) / 4) * 2654435761u;

        memcpy(model + place + i, &word, 4);
    }
}

/* Rows of the device's, one behind the other there, into rows that lie apart (or not) here. */
static void rows(unsigned how, size_t at, size_t pitch, size_t width, size_t height, uint32_t seed)
{
    CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = from,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = to + at,
                       .dstPitch = pitch,
                       .WidthInBytes = width,
                       .Height = height};
    /* Two layers. */
    CUDA_MEMCPY3D b = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = from,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = to + at,
                       .dstPitch = pitch,
                       .dstHeight = height / 2,
                       .WidthInBytes = width,
                       .Height = height / 2,
                       .Depth = 2};

    spin(2, stream);
    stamp(from, SIZE, seed, stream);
    if (how % 2 == 0)
        ok(cuStreamSynchronize(stream));
    switch (how) {
    case 0:
        ok(cuMemcpy2D_v2(&r));
        break;
    case 1:
        ok(cuMemcpy2DAsync_v2(&r, stream));
        break;
    case 2:
        ok(cuMemcpy2DUnaligned_v2(&r));
        break;
    case 3:
        ok(cuMemcpy3DAsync_v2(&b, stream));
        break;
    case 4:
        ok(cuMemcpy3D_v2(&b));
        break;
    case 5:
        check(cudaMemcpy2DAsync(to + at, pitch, (void *)(uintptr_t)from, width, width, height, 2, stream) == 0);
        break;
    case 6:
        check(cudaMemcpy2D(to + at, pitch, (void *)(uintptr_t)from, width, width, height, 2) == 0);
        break;
    }
    stamp(from, SIZE, 1000, stream);
    for (size_t row = 0; row < height; row++)
        expect(at + row * pitch, row * width, width, seed);
}

/* Some of it large, some small, some of it elsewhere. */
static void batch(int by_runtime, char *pinned, uint32_t seed)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr there[] = {(uintptr_t)to + 4100, (uintptr_t)pinned, (uintptr_t)to + 2 * MIB};
    CUdeviceptr here[] = {from, from + 400, from + MIB};
    size_t sizes[] = {MIB + 5000, 8000, 12}, first = 0;

    spin(2, stream);
    stamp(from, SIZE, seed, stream);
    if (by_runtime)
        check(cudaMemcpyBatchAsync((void *const *)(void *)there, (const void *const *)(void *)here, sizes, 3,
                                   &attributes, &first, 1, stream) == 0);
    else
        ok(cuMemcpyBatchAsync_v2(there, here, sizes, 3, &attributes, &first, 1, stream));
    stamp(from, SIZE, 1000, stream);
    ok(cuStreamSynchronize(stream));
    expect(4100, 0, MIB + 5000, seed);
    expect(2 * MIB, MIB, 12, seed);
    check(stamped(pinned, 8000, seed + 100 * 2654435761u));
}

/* Into a promise; afterwards, and when the ring was used again. */
static void promise(uint32_t seed)
{
    alarm(5);
    copy(to, SIZE, seed);
    expect(0, 0, SIZE, seed);
    check(memcmp(to, model, SIZE) == 0);
}

static void look(void)
{
    check(memcmp(to, model, SIZE) == 0);
    put(fd, to, SIZE);
    churn(fd);
    check(memcmp(to, model, SIZE) == 0);
    put(fd, to, SIZE);
}

int main(void)
{
    void *pinned;

    begin();
    from = device_memory(SIZE);
    ok(cuStreamCreate(&stream, 1));
    ok(cuMemHostAlloc(&pinned, 8192, 0));
    to = anonymous(SIZE);
    model = host(SIZE);
    fd = create("a.ckpt");
    for (unsigned how = 0; how < 7; how++) {
        promise(2 * how);
        rows(how, 4 * how + 8, PITCH, WIDTH, ROWS, 100 + 2 * how);
        look();
        promise(2 * how + 1); /* as one piece */
        rows(how, 4096 * how, WIDTH, WIDTH, ROWS, 101 + 2 * how);
        look();
    }
    for (int by_runtime = 0; by_runtime < 2; by_runtime++) {
        promise(20 + (uint32_t)by_runtime);
        batch(by_runtime, pinned, 200 + (uint32_t)by_runtime);
        look();
    }
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
