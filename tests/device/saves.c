/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * saves.c -- saves of a device's memory that a graph's replay has filled
 *
 *     saves blocks|segments|pools COUNT MEBIBYTES
 *
 * For scripts/device-check, on hardware. Each save is of two buffers, which have the value of their
 * place in the stream, and are overwritten right after their copy. blocks: cuMemAlloc once;
 * segments: addresses that are reserved, with memory that is mapped and taken away (PyTorch's
 * expandable segments); pools: cuMemAllocAsync, each save's memory given to what overwrites it
 * (cudaMallocAsync).
 *
 * Here, too, what the files hold is checked before they are written: a run that ends with 0 had it
 * right.
 */
#include "../shim/helper.h"

#define ok(call) said((call), #call, __LINE__)

#include "../emu/api.h"

static inline void said(CUresult error, const char *what, int line)
{
    if (error != CUDA_SUCCESS) {
        dprintf(2, "saves.c:%d: %s is %d\n", line, what, (int)error);
        _exit(98);
    }
}

#include "../emu/kernels.h"

struct buffer {
    CUdeviceptr address;
    size_t size, mapped;
    CUmemGenericAllocationHandle handle;
};

static size_t most;
static CUstream stream;

/* --- the three kinds of memory --- */

static void blocks_begin(struct buffer *buffer)
{
    if (!buffer->address)
        buffer->address = device_memory(most);
}

static void blocks_end(struct buffer *buffer)
{
    (void)buffer;
}

static void segments_begin(struct buffer *buffer)
{
    const size_t step = 2 * MIB; /* no device has a larger granularity */
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    if (!buffer->address)
        ok(cuMemAddressReserve(&buffer->address, most + step, 0, 0, 0));
    buffer->mapped = (buffer->size + step - 1) / step * step;
    ok(cuMemCreate(&buffer->handle, buffer->mapped, &kind, 0));
    ok(cuMemMap(buffer->address, buffer->mapped, 0, buffer->handle, 0));
    ok(cuMemSetAccess(buffer->address, buffer->mapped, &access, 1));
}

static void segments_end(struct buffer *buffer)
{
    ok(cuStreamSynchronize(stream));
    ok(cuMemUnmap(buffer->address, buffer->mapped));
    ok(cuMemRelease(buffer->handle));
}

static void pools_begin(struct buffer *buffer)
{
    ok(cuMemAllocAsync(&buffer->address, buffer->size, stream));
}

/* The next one gets this memory, and overwrites it, before all that was enqueued on others is done.
 */
static void pools_end(struct buffer *buffer)
{
    ok(cuMemFreeAsync(buffer->address, stream));
    ok(cuMemAllocAsync(&buffer->address, buffer->size, stream));
    stamp(buffer->address, buffer->size, 77, stream);
    ok(cuMemFreeAsync(buffer->address, stream));
}

static const struct kind {
    const char *name;
    void (*begin)(struct buffer *buffer), (*end)(struct buffer *buffer);
} kinds[] = {{"blocks", blocks_begin, blocks_end},
             {"segments", segments_begin, segments_end},
             {"pools", pools_begin, pools_end}};

/* --- a save --- */

static CUdeviceptr source; /* stamped with the number of the save */

static CUgraphExec capture(const struct buffer *buffer)
{
    CUdeviceptr to = buffer->address, from = source;
    uint64_t words = buffer->size / 4;
    CUgraphExec exec;
    CUgraph graph;

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    stamp(to, buffer->size, 1000, stream);
    launch("add", stream, &to, &from, &words);
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    return exec;
}

/* What the graph leaves: stamp of 1000, and the source's stamp added. */
static int right(const char *data, size_t size, uint32_t number)
{
    const uint32_t *words = (const uint32_t *)data;

    for (size_t i = 0; i < size / 4; i++)
        if (words[i] != 1000 + number + 2 * ((uint32_t)i * 2654435761u))
            return 0;
    return 1;
}

static void one(const struct kind *kind, struct buffer *buffer, uint32_t number, int fd)
{
    CUgraphExec exec;
    char *host;

    buffer->size = most - number % 5 * 4096 - number % 3 * 4;
    kind->begin(buffer);
    exec = capture(buffer);
    stamp(source, most, number, stream);
    spin(number % 4, stream);
    ok(cuGraphLaunch(exec, stream));
    host = malloc(buffer->size);
    check(host != NULL);
    ok(cuMemcpyDtoHAsync_v2(host, buffer->address, buffer->size, stream));
    stamp(buffer->address, buffer->size, 99, stream);
    kind->end(buffer);
    check(right(host, buffer->size, number));
    if (number % 7 == 0)
        memset(host + buffer->size / 2, 'c', 5000); /* the program changes a part */
    put(fd, host, buffer->size);
    free(host);
    ok(cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
}

int main(int count, char **arguments)
{
    const struct kind *kind = kinds;
    struct buffer buffers[2] = {{0}};
    CUcontext context;
    unsigned saves;

    check(count == 4);
    while (kind < kinds + 3 && strcmp(kind->name, arguments[1]) != 0)
        kind++;
    check(kind < kinds + 3);
    saves = (unsigned)atoi(arguments[2]);
    most = (size_t)atoi(arguments[3]) * MIB;
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    source = device_memory(most);
    for (uint32_t number = 0; number < saves; number++) {
        char name[64];
        int fd;

        snprintf(name, sizeof(name), "%s-%03u.ckpt", kind->name, number);
        fd = create(name);
        for (unsigned i = 0; i < 2; i++)
            one(kind, &buffers[i], 2 * number + i, fd);
        check(close(fd) == 0);
    }
    printf("%s: %u saves of %zu MiB\n", kind->name, saves, 2 * most / MIB);
    return 0;
}
