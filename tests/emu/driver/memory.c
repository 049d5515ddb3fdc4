/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c -- device memory: cuMemAlloc and what asks about it
 *
 * The address that was freed last is given out again first: programs that mistake the new block for
 * the old one are found. Freed bytes are gone. cuMemFree waits for all that the device does.
 */
#include <fcntl.h>
#include <string.h>

#include "emu.h"

/* A block in the device's own file; the address's place in the view is its place in the file. */
CUresult emu_memory_allocate(CUcontext context, struct device *device, size_t size, void *owner,
                             struct range *range)
{
    struct range made = {.kind = DEVICE, .device = device, .context = context, .owner = owner};
    CUresult error;

    if (!size || size > device->size || emu_whole_pages(size) > device->size - device->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made.base = emu_range_gap((uintptr_t)device->view, (uintptr_t)device->view + device->size,
                              emu_whole_pages(size));
    if (!made.base)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made.size = size;
    made.access = device->shadow + (made.base - (uintptr_t)device->view);
    error = emu_range_add(&made);
    if (error)
        return error;
    device->used += emu_whole_pages(size);
    *range = made;
    return CUDA_SUCCESS;
}

static void give_back(struct range *range)
{
    struct device *device = range->device;

    device->used -= emu_whole_pages(range->size);
    fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              range->access - device->shadow, (off_t)emu_whole_pages(range->size));
}

void emu_memory_free(struct range *range)
{
    give_back(range);
    emu_range_remove(range->base);
}

static bool of_context(struct range *range, void *context)
{
    if (range->kind != DEVICE || range->owner || range->context != context)
        return false;
    give_back(range);
    return true;
}

void emu_memory_end(CUcontext context)
{
    emu_range_each(of_context, context);
}

API cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range range;

    if (error)
        return error;
    if (!address || !size)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    error = emu_unsafe();
    if (!error)
        error = emu_memory_allocate(current, current->device, size, NULL, &range);
    if (!error)
        *address = range.base;
    return emu_leave(error);
}

API cuMemFree_v2(CUdeviceptr address)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range *range;

    if (error)
        return error;
    if (!address)
        return emu_leave(CUDA_SUCCESS);
    error = emu_unsafe();
    range = emu_range_find((uintptr_t)address);
    if (!error && (!range || range->base != address || (range->owner && !range->pool) ||
                   (range->kind != DEVICE && range->kind != MANAGED)))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error)
        return emu_leave(error);
    emu_await_device(range->device);
    range = emu_range_find((uintptr_t)address); /* the table may have moved */
    if (!range || range->base != address)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (range->pool)
        error = emu_pool_free(range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    else if (range->kind == MANAGED)
        emu_host_free(range);
    else
        emu_memory_free(range);
    return emu_leave(error);
}

API cuMemGetInfo_v2(size_t *available, size_t *total)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    *available = current->device->size - current->device->used;
    *total = current->device->size;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    CUresult error = emu_enter();
    struct range *range;

    if (error)
        return error;
    range = emu_range_find((uintptr_t)address);
    if (!range || (range->kind != DEVICE && range->kind != MANAGED))
        return emu_leave(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = range->base;
    if (size)
        *size = range->size;
    return emu_leave(CUDA_SUCCESS);
}
