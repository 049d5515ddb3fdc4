/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h -- kernels of the emulated driver, as test programs launch them
 *
 * Who includes it has ok(call), which ends a test in its own way where CUDA says no.
 */
#ifndef EMU_KERNELS_H
#define EMU_KERNELS_H

#include "api.h"
#include "kernels_ptx.h"

static CUmodule module;

static inline void launch(const char *name, CUstream stream, void *a, void *b, void *c)
{
    void *arguments[] = {a, b, c};
    CUfunction function;

    if (!module)
        ok(cuModuleLoadData(&module, kernels_ptx));
    ok(cuModuleGetFunction(&function, module, name));
    ok(cuLaunchKernel(function, KERNEL_BLOCKS, 1, 1, KERNEL_THREADS, 1, 1, 0, stream, arguments,
                      NULL));
}

/* Writes size bytes that depend on seed and place. */
static inline void stamp(CUdeviceptr to, size_t size, uint32_t seed, CUstream stream)
{
    uint64_t words = size / 4;

    launch("stamp", stream, &to, &words, &seed);
}

static inline int stamped(const void *from, size_t size, uint32_t seed)
{
    const uint32_t *words = from;

    for (size_t i = 0; i < size / 4; i++)
        if (words[i] != seed + (uint32_t)i * 2654435761u)
            return 0;
    return 1;
}

static inline void spin(uint64_t milliseconds, CUstream stream)
{
    milliseconds *= 1000000;
    launch("spin", stream, &milliseconds, NULL, NULL);
}

static inline void hold(volatile uint32_t *flag, uint32_t value, CUstream stream)
{
    CUdeviceptr address = (uintptr_t)flag;

    launch("hold", stream, &address, &value, NULL);
}

static inline CUdeviceptr device_memory(size_t size)
{
    CUdeviceptr address;

    ok(cuMemAlloc_v2(&address, size));
    return address;
}

#endif
