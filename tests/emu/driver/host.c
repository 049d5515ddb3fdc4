/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c -- host memory that the device reaches: allocated, registered, managed
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"

static CUresult allocate(CUcontext context, enum range_kind kind, void **memory, size_t size,
                         unsigned flags)
{
    struct range range = {
        .size = emu_whole_pages(size), .kind = kind, .context = context, .flags = flags};
    CUresult error;

    range.access =
        mmap(NULL, range.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (range.access == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range.base = (uintptr_t)range.access;
    range.device = context->device;
    error = emu_range_add(&range);
    if (error)
        munmap(range.access, range.size);
    else
        *memory = range.access;
    return error;
}

API cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!memory || flags > 7)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!size) {
        *memory = NULL;
        return emu_leave(CUDA_SUCCESS);
    }
    error = emu_unsafe();
    if (!error)
        error = allocate(current, HOST_ALLOCATED, memory, size, flags | CU_MEMHOSTALLOC_DEVICEMAP);
    return emu_leave(error);
}

API cuMemAllocHost_v2(void **memory, size_t size)
{
    return cuMemHostAlloc(memory, size, 0);
}

void emu_host_free(struct range *range)
{
    munmap(range->access, range->size);
    emu_range_remove(range->base);
}

API cuMemFreeHost(void *memory)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range *range;

    if (error || !memory)
        return error ? error : emu_leave(CUDA_SUCCESS);
    error = emu_unsafe();
    range = emu_range_find((uintptr_t)memory);
    if (!error && (!range || range->kind != HOST_ALLOCATED || range->base != (uintptr_t)memory))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error) {
        emu_await_device(range->device);
        emu_host_free(emu_range_find((uintptr_t)memory)); /* the table may have moved */
    }
    return emu_leave(error);
}

/*
 * As the real driver: no byte of it known already (pages may be shared with another registration),
 * and all pages there, which a write to each shows.
 */
static CUresult registrable(uintptr_t base, size_t size, unsigned flags)
{
    uintptr_t page = base / EMU_PAGE * EMU_PAGE;

    if (emu_range_overlaps(base, size))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (madvise((void *)page, emu_whole_pages(size + (base - page)),
                flags & CU_MEMHOSTREGISTER_READ_ONLY ? MADV_POPULATE_READ : MADV_POPULATE_WRITE))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

API cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range range;

    if (error)
        return error;
    if (!memory || !size || flags > 15)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    range = (struct range){.base = (uintptr_t)memory,
                           .size = size,
                           .kind = HOST_REGISTERED,
                           .access = memory,
                           .device = current->device,
                           .context = current,
                           .flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP};
    error = emu_unsafe();
    if (!error)
        error = registrable(range.base, range.size, flags);
    if (!error) {
        range.pin = emu_pin(range.base, range.size);
        error = emu_range_add(&range);
        if (error)
            emu_pin_drop(range.pin);
    }
    return emu_leave(error);
}

API cuMemHostRegister(void *memory, size_t size, unsigned flags); /* of CUDA 4.0 */
API cuMemHostRegister(void *memory, size_t size, unsigned flags)
{
    return cuMemHostRegister_v2(memory, size, flags);
}

API cuMemHostUnregister(void *memory)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    uintptr_t base = (uintptr_t)memory;
    struct range *range;

    if (error)
        return error;
    error = emu_unsafe();
    range = emu_range_find(base);
    if (!error && (!range || range->kind != HOST_REGISTERED || range->base != base))
        error = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (!error) {
        emu_await_device(range->device);
        range = emu_range_find(base);
        if (range)
            emu_pin_drop(range->pin);
        emu_range_remove(base);
    }
    return emu_leave(error);
}

static struct range *host_range(const void *memory)
{
    struct range *range = emu_range_find((uintptr_t)memory);

    return range && (range->kind == HOST_ALLOCATED || range->kind == HOST_REGISTERED) ? range
                                                                                      : NULL;
}

API cuMemHostGetFlags(unsigned *flags, void *memory)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range *range;

    if (error)
        return error;
    range = host_range(memory);
    if (!flags || !range)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = range->flags;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!address || flags || !host_range(memory))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *address = (uintptr_t)memory;
    return emu_leave(CUDA_SUCCESS);
}

/* One memory for CPU and devices: that it moves between them nobody sees but by the clock. */
API cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    void *memory;

    if (error)
        return error;
    if (!address || !size || (flags != 1 && flags != 2 && flags != 4))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    error = emu_unsafe();
    if (!error)
        error = allocate(current, MANAGED, &memory, size, flags);
    if (!error)
        *address = (uintptr_t)memory;
    return emu_leave(error);
}

static bool of_context(struct range *range, void *context)
{
    if (range->context != context)
        return false;
    if (range->kind == HOST_REGISTERED)
        emu_pin_drop(range->pin);
    else if (range->kind == HOST_ALLOCATED || range->kind == MANAGED)
        munmap(range->access, range->size);
    else
        return false;
    return true;
}

void emu_host_end(CUcontext context)
{
    emu_range_each(of_context, context);
}
