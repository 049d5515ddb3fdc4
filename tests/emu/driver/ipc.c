/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ipc.c -- memory of another process; the handle says where to find it in /proc
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"

struct handle {
    uint64_t pid, file, offset, size, device;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "the handle holds it");

API cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range *range;
    struct handle made;

    if (error)
        return error;
    range = emu_range_find((uintptr_t)address);
    if (!handle || !range || range->kind != DEVICE || range->owner)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = (struct handle){(uint64_t)getpid(), (uint64_t)range->device->file,
                           (uint64_t)(range->access - range->device->shadow), range->size,
                           (uint64_t)range->device->ordinal};
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &made, sizeof(made));
    return emu_leave(CUDA_SUCCESS);
}

static int open_file(uint64_t pid, uint64_t file)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%llu/fd/%llu", (unsigned long long)pid,
             (unsigned long long)file);
    return open(path, O_RDWR | O_CLOEXEC);
}

API cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range range = {.kind = DEVICE, .device = NULL};
    struct handle h;
    void *view;
    int file;

    if (error)
        return error;
    memcpy(&h, &handle, sizeof(h));
    if (!address || flags != 1 || h.pid == (uint64_t)getpid())
        return emu_leave(address && flags == 1 ? CUDA_ERROR_INVALID_CONTEXT
                                               : CUDA_ERROR_INVALID_VALUE);
    file = open_file(h.pid, h.file);
    if (file < 0 || !emu_device((CUdevice)h.device))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    view = mmap(NULL, h.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    range.access = mmap(NULL, h.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)h.offset);
    close(file);
    if (view == MAP_FAILED || range.access == MAP_FAILED)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    range.base = (uintptr_t)view;
    range.size = h.size;
    range.device = emu_device((CUdevice)h.device);
    range.context = current;
    range.owner = (void *)cuIpcOpenMemHandle_v2;
    error = emu_range_add(&range);
    if (!error)
        *address = range.base;
    return emu_leave(error);
}

API cuIpcCloseMemHandle(CUdeviceptr address)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range *range;

    if (error)
        return error;
    range = emu_range_find((uintptr_t)address);
    if (!range || range->base != address || range->owner != (void *)cuIpcOpenMemHandle_v2)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_await_device(range->device);
    range = emu_range_find((uintptr_t)address);
    if (!range)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    munmap(range->access, range->size);
    munmap((void *)range->base, range->size);
    emu_range_remove(range->base);
    return emu_leave(CUDA_SUCCESS);
}
