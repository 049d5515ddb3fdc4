/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.h -- what the tests of device memory share: an emulated driver, see tests/emu/README
 */
#ifndef TESTS_SHIM_CUDA_H
#define TESTS_SHIM_CUDA_H

#include <sys/mman.h>

#include "helper.h"

#define ok(call) check((call) == CUDA_SUCCESS)

#include "../emu/kernels.h"

/* A context, and a save before, so that there is a ring, and pinned. No hazard may take longer. */
static inline void begin(void)
{
    CUcontext context;
    CUdeviceptr small;
    char to[8];

    alarm(30);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    save("first.ckpt", BIG, 1);
    small = device_memory(8);
    for (unsigned i = 0; i < 20; i++) {
        usleep(10000);
        ok(cuMemcpyDtoH_v2(to, small, 8));
    }
}

/* Host memory as malloc gives it: not on a page. */
static inline char *host(size_t size)
{
    char *memory = malloc(size);

    check(memory != NULL);
    return memory;
}

/* Host memory as mmap gives it. */
static inline char *anonymous(size_t size)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    check(memory != MAP_FAILED);
    return memory;
}

static inline int zeros(const char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (from[i] != 0)
            return 0;
    return 1;
}

/* size bytes of the device's, at `to`, as a save would take them: seed tells them from others. */
static inline void copy(void *to, size_t size, uint32_t seed)
{
    static CUdeviceptr from;

    if (!from)
        from = device_memory(8 * MIB);
    stamp(from, size, seed, NULL);
    ok(cuMemcpyDtoH_v2(to, from, size));
}

/* Whether the memory there is a mapping of the ring: then pages that were pinned or locked are gone. */
static inline int shown(const void *at)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    char line[512];
    int found = 0;

    check(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        found |= sscanf(line, "%lx-%lx", &start, &end) == 2 && (unsigned long)at >= start &&
                 (unsigned long)at < end && strstr(line, "portus-ring");
    fclose(maps);
    return found;
}

/* Uses the ring again and again: what still is shown from there would change. */
static inline void churn(int fd)
{
    alarm(5);
    for (uint32_t i = 0; i < 14; i++) {
        char *to = host(MIB + 4096);

        copy(to, MIB + 4096, 5000 + i);
        put(fd, to, MIB + 4096);
        free(to);
    }
}

#endif
