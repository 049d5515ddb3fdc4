/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel.c -- what compiled programs register, and launches
 *
 * A kernel is the driver's function of its name; nothing else of a binary is looked at. Variables
 * get device memory when they are asked for.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

struct entry {
    const void *host; /* the program's own address for it */
    const char *name;
    CUfunction function;
    size_t size; /* of a variable */
    CUdeviceptr address;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* by hash; places is a power of two, at most half are used */
static size_t places, used;

static struct entry *place(struct entry *table, size_t size, const void *host)
{
    size_t i = (uintptr_t)host * 0x9e3779b97f4a7c15u >> 20;

    while (table[i & (size - 1)].host && table[i & (size - 1)].host != host)
        i++;
    return &table[i & (size - 1)];
}

static void add(const void *host, const char *name, size_t size)
{
    pthread_mutex_lock(&lock);
    if (2 * used >= places) {
        size_t more = places ? 2 * places : 4096;
        struct entry *larger = calloc(more, sizeof(*larger));

        if (!larger)
            abort();
        for (size_t i = 0; i < places; i++)
            if (entries[i].host)
                *place(larger, more, entries[i].host) = entries[i];
        free(entries);
        entries = larger;
        places = more;
    }
    struct entry *entry = place(entries, places, host);

    used += !entry->host;
    *entry = (struct entry){host, name, NULL, size, 0};
    pthread_mutex_unlock(&lock);
}

/* With the lock. */
static struct entry *find(const void *host)
{
    struct entry *entry = places ? place(entries, places, host) : NULL;

    return entry && entry->host ? entry : NULL;
}

__attribute__((visibility("default"))) void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    return &handle;
}

__attribute__((visibility("default"))) void __cudaRegisterFatBinaryEnd(void **handle)
{
}

__attribute__((visibility("default"))) void __cudaUnregisterFatBinary(void **handle)
{
}

__attribute__((visibility("default"))) void
__cudaRegisterFunction(void **handle, const char *host, char *there, const char *name, int threads,
                       uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp)
{
    add(host, name, 0);
}

__attribute__((visibility("default"))) void __cudaRegisterVar(void **handle, char *host,
                                                              char *there, const char *name,
                                                              int external, size_t size,
                                                              int constant, int global)
{
    add(host, name, size);
}

__attribute__((visibility("default"))) char __cudaInitModule(void **handle)
{
    return 1;
}

/* ---- the configuration between the angle brackets ---- */

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed;

__attribute__((visibility("default"))) unsigned
__cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.stream = stream;
    return 0;
}

RT __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}

/* ---- launches ---- */

static cudaError_t named(const char *name, CUfunction *function)
{
    static CUmodule module; /* any has every function */
    cudaError_t error = runtime_ready();

    if (!error && !module)
        error = (cudaError_t)driver.ModuleLoadData(&module, "");
    return error ? error : (cudaError_t)driver.ModuleGetFunction(function, module, name);
}

/* A program's own address of a kernel, or a handle of one. */
static cudaError_t function_of(const void *host, CUfunction *function)
{
    cudaError_t error = cudaSuccess;
    struct entry *entry;

    pthread_mutex_lock(&lock);
    entry = find(host);
    if (entry && !entry->function)
        error = named(entry->name, &entry->function);
    *function = entry ? entry->function : (CUfunction)host;
    pthread_mutex_unlock(&lock);
    return error;
}

static cudaError_t launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                          cudaStream_t stream, bool pt)
{
    CUfunction function;
    cudaError_t error = host ? runtime_ready() : cudaErrorInvalidValue;

    if (!error)
        error = function_of(host, &function);
    if (!error)
        error = (cudaError_t)(pt ? driver.LaunchKernel_pt : driver.LaunchKernel)(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
            arguments, NULL);
    return runtime_said(error);
}

RT cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                    cudaStream_t stream)
{
    return launch(function, grid, block, arguments, shared, stream, false);
}

RT cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **arguments,
                         size_t shared, cudaStream_t stream)
{
    return launch(function, grid, block, arguments, shared, stream, true);
}

RT cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    return launch(function, grid, block, arguments, shared, stream, false);
}

RT cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *function, void **arguments)
{
    return launch(function, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream,
                  false);
}

RT __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    CUfunction function;
    cudaError_t error = function_of(host, &function);

    if (!error)
        *kernel = (cudaKernel_t)function;
    return runtime_said(error);
}

RT __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                      cudaStream_t stream)
{
    return launch(kernel, grid, block, arguments, shared, stream, false);
}

RT __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                           size_t shared, cudaStream_t stream)
{
    return launch(kernel, grid, block, arguments, shared, stream, true);
}

/* ---- what is told of them ---- */

RT cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    memset(attributes, 0, sizeof(*attributes));
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 49152;
    return cudaSuccess;
}

RT cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute what, int value)
{
    return cudaSuccess;
}

RT cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute what, int value,
                                   int device)
{
    return cudaSuccess;
}

RT cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size,
                                                 size_t shared)
{
    *blocks = 2;
    return cudaSuccess;
}

RT cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                          int block_size, size_t shared,
                                                          unsigned flags)
{
    *blocks = 2;
    return cudaSuccess;
}

/* ---- variables ---- */

RT cudaGetSymbolAddress(void **address, const void *symbol)
{
    cudaError_t error = runtime_ready();
    struct entry *entry;

    pthread_mutex_lock(&lock);
    entry = find(symbol);
    if (!error && (!entry || !entry->size))
        error = (cudaError_t)CUDA_ERROR_NOT_FOUND;
    if (!error && !entry->address)
        error = (cudaError_t)driver.MemAlloc(&entry->address, entry->size);
    if (!error)
        *address = (void *)(uintptr_t)entry->address;
    pthread_mutex_unlock(&lock);
    return runtime_said(error);
}

RT cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset,
                      enum cudaMemcpyKind kind)
{
    void *address;
    cudaError_t error = cudaGetSymbolAddress(&address, symbol);

    if (!error)
        error = (cudaError_t)driver.Memcpy((uintptr_t)address + offset, (uintptr_t)from, size);
    return runtime_said(error);
}

/* ---- libraries: modules by another name ---- */

RT cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *options,
                       void **values, unsigned count, enum cudaLibraryOption *library_options,
                       void **library_values, unsigned library_count)
{
    cudaError_t error = runtime_ready();

    return runtime_said(error ? error
                              : (cudaError_t)driver.ModuleLoadData((CUmodule *)library, code));
}

RT cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *options,
                           void **values, unsigned count, enum cudaLibraryOption *library_options,
                           void **library_values, unsigned library_count)
{
    cudaError_t error = runtime_ready();

    return runtime_said(error ? error : (cudaError_t)driver.ModuleLoad((CUmodule *)library, path));
}

CALL(cudaLibraryUnload, (cudaLibrary_t library), ModuleUnload((CUmodule)library))
CALL(cudaLibraryGetKernel, (cudaKernel_t * kernel, cudaLibrary_t library, const char *name),
     ModuleGetFunction((CUfunction *)kernel, (CUmodule)library, name))

/* Nobody counts what any name is in, and there are no variables in an image that nobody reads. */
RT cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    *count = 0;
    return cudaSuccess;
}

RT cudaLibraryGetGlobal(void **address, size_t *size, cudaLibrary_t library, const char *name)
{
    return runtime_said(cudaErrorSymbolNotFound);
}

RT cudaLibraryGetManaged(void **address, size_t *size, cudaLibrary_t library, const char *name)
{
    return runtime_said(cudaErrorSymbolNotFound);
}

RT cudaLibraryGetUnifiedFunction(void **address, cudaLibrary_t library, const char *name)
{
    return runtime_said(cudaErrorSymbolNotFound);
}
