/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c -- memory in the order of streams: cuMemAllocAsync
 *
 * A freed block is the same stream's again at once, though what used it is still queued; another
 * stream's when the free has happened. That is what makes these addresses treacherous.
 */
#include <string.h>

#include "emu.h"

struct block {
    struct block *next;
    struct range range;
    bool free;
    CUstream stream; /* where it was freed, behind which work */
    uint64_t number;
};

struct CUmemPoolHandle_st {
    struct device *device;
    struct block *blocks;
    uint64_t reserved, reserved_high, used, used_high, threshold;
    bool program_s; /* by cuMemPoolCreate */
};

static struct CUmemPoolHandle_st standard[EMU_DEVICES];
static CUmemoryPool current_pool[EMU_DEVICES];

static CUmemoryPool default_pool(struct device *device)
{
    standard[device->ordinal].device = device;
    return &standard[device->ordinal];
}

static CUmemoryPool pool_of(struct device *device)
{
    CUmemoryPool pool = current_pool[device->ordinal];

    return pool ? pool : default_pool(device);
}

static bool reusable(const struct block *block, CUstream stream, size_t size)
{
    return block->free && block->range.size == size &&
           (!block->stream || block->stream == stream || block->stream->finished >= block->number);
}

static CUresult allocate(CUmemoryPool pool, CUstream stream, size_t size, struct block **found)
{
    struct block *block = pool->blocks;
    CUresult error;

    size = emu_whole_pages(size);
    while (block && !reusable(block, stream, size))
        block = block->next;
    if (!block) {
        block = calloc(1, sizeof(*block));
        if (!block)
            return CUDA_ERROR_OUT_OF_MEMORY;
        error = emu_memory_allocate(stream->context, pool->device, size, block, &block->range);
        if (error) {
            free(block);
            return error;
        }
        emu_range_find(block->range.base)->pool = pool;
        block->next = pool->blocks;
        pool->blocks = block;
        pool->reserved += block->range.size;
    }
    block->free = false;
    pool->used += block->range.size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    *found = block;
    return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream handle)
{
    CUstream stream;
    CUresult error = emu_enter_stream(
        handle, address && size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, &stream);
    struct block *block;

    if (error)
        return error;
    if (!pool)
        pool = pool_of(stream->context->device);
    if (stream->capture) /* it is part of the graph: order only */
        error = emu_submit(stream, emu_work(sizeof(struct work), NULL), NULL);
    if (!error)
        error = allocate(pool, stream, size, &block);
    if (!error)
        *address = block->range.base;
    return emu_leave(error);
}

static CUresult cuMemAllocAsync_on(CUdeviceptr *address, size_t size, CUstream stream)
{
    return alloc_async(address, size, NULL, stream);
}
STREAMED(cuMemAllocAsync, (CUdeviceptr * address, size_t size, CUstream stream),
         (address, size, stream))

static CUresult cuMemAllocFromPoolAsync_on(CUdeviceptr *address, size_t size, CUmemoryPool pool,
                                           CUstream stream)
{
    return pool ? alloc_async(address, size, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}
STREAMED(cuMemAllocFromPoolAsync,
         (CUdeviceptr * address, size_t size, CUmemoryPool pool, CUstream stream),
         (address, size, pool, stream))

static struct block *block_at(CUdeviceptr address, CUmemoryPool *pool)
{
    struct range *range = emu_range_find((uintptr_t)address);

    if (!range || range->base != address || !range->pool)
        return NULL;
    *pool = range->pool;
    for (struct block *block = range->pool->blocks; block; block = block->next)
        if (block->range.base == address)
            return block->free ? NULL : block;
    return NULL;
}

bool emu_pool_free(struct range *range) /* by cuMemFree, when nothing is queued any more */
{
    CUmemoryPool pool;
    struct block *block = block_at(range->base, &pool);

    if (!block)
        return false;
    block->free = true;
    block->stream = NULL;
    pool->used -= block->range.size;
    return true;
}

static CUresult cuMemFreeAsync_on(CUdeviceptr address, CUstream handle)
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);
    struct block *block;
    CUmemoryPool pool;
    bool captured;

    if (error)
        return error;
    if (!address)
        return emu_leave(CUDA_SUCCESS);
    block = block_at(address, &pool);
    if (!block)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    captured = stream->capture; /* the graph's own: for good */
    error = emu_submit(stream, emu_work(sizeof(struct work), NULL), &block->number);
    if (!error && !captured) {
        block->free = true;
        block->stream = stream;
        pool->used -= block->range.size;
    }
    return emu_leave(error);
}
STREAMED(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), (address, stream))

static void trim(CUmemoryPool pool, uint64_t keep, bool all)
{
    struct block **at = &pool->blocks;

    while (*at) {
        struct block *block = *at;
        struct range *range;

        if (!all && (!block->free || pool->reserved <= keep ||
                     (block->stream && block->stream->finished < block->number))) {
            at = &block->next;
            continue;
        }
        range = emu_range_find(block->range.base);
        if (range)
            emu_memory_free(range);
        pool->reserved -= block->range.size;
        *at = block->next;
        free(block);
    }
    if (all)
        pool->used = 0;
}

void emu_pools_end(struct device *device)
{
    trim(default_pool(device), 0, true);
    current_pool[device->ordinal] = NULL;
}

API cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    trim(pool, keep, false);
    return emu_leave(CUDA_SUCCESS);
}

API cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult error = emu_enter();
    CUmemoryPool made;

    if (error)
        return error;
    if (!pool || !properties || !emu_device(properties->location.id))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof(*made));
    if (made) {
        made->device = emu_device(properties->location.id);
        made->program_s = true;
        *pool = made;
    }
    return emu_leave(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

API cuMemPoolDestroy(CUmemoryPool pool)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!pool || !pool->program_s)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_await_device(pool->device);
    trim(pool, 0, true);
    if (current_pool[pool->device->ordinal] == pool)
        current_pool[pool->device->ordinal] = NULL;
    free(pool);
    return emu_leave(CUDA_SUCCESS);
}

static CUresult give(CUmemoryPool *pool, CUdevice ordinal, CUmemoryPool (*which)(struct device *))
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!pool || !emu_device(ordinal))
        return emu_leave(pool ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    *pool = which(emu_device(ordinal));
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    return give(pool, device, default_pool);
}

API cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return give(pool, device, pool_of);
}

API cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!pool || !emu_device(device))
        return emu_leave(pool ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    current_pool[device] = pool;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    switch ((int)what) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        break;
    default:
        *(int *)value = 1; /* reuse of each kind */
    }
    return emu_leave(CUDA_SUCCESS);
}

API cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if ((int)what == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = *(cuuint64_t *)value;
    if ((int)what == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = pool->reserved;
    if ((int)what == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->used;
    return emu_leave(CUDA_SUCCESS);
}

/* Peers reach what they enabled, whatever pool it is of. */
API cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    CUresult error = emu_enter();

    return error ? error : emu_leave(pool && access ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
