/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pointer.c -- what the driver tells of an address
 */
#include <string.h>

#include "emu.h"

static CUresult attribute(void *data, CUpointer_attribute what, uintptr_t address)
{
    const struct range *range = emu_range_find(address);
    bool host = range && (range->kind == HOST_ALLOCATED || range->kind == HOST_REGISTERED);
    bool known = range && range->kind != RESERVED;

    switch ((int)what) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = range ? range->base : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = range ? range->size : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = known;
        return CUDA_SUCCESS;
    }
    if (!known)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = range->context;
        return range->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = host || range->kind == MANAGED ? (void *)address : NULL;
        return host || range->kind == MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = range->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = range->kind == MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = range->device->ordinal;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)data = range->kind == DEVICE && !range->owner;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(cuuint64_t *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(void **)data = NULL;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

API cuPointerGetAttribute(void *data, CUpointer_attribute what, CUdeviceptr address)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!data)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(attribute(data, what, (uintptr_t)address));
}

/* Of an address that it does not know it says nothing instead of failing. */
API cuPointerGetAttributes(unsigned count, CUpointer_attribute *what, void **data,
                           CUdeviceptr address)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!count || !what || !data)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        if (!attribute(data[i], what[i], (uintptr_t)address))
            continue;
        switch ((int)what[i]) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            memset(data[i], 0, 8);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)data[i] = -2;
            break;
        default:
            memset(data[i], 0, 4);
        }
    }
    return emu_leave(CUDA_SUCCESS);
}

/* The only one that can be set is SYNC_MEMOPS; synchronous calls are always synchronous here. */
API cuPointerSetAttribute(const void *value, CUpointer_attribute what, CUdeviceptr address)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct range *range;

    if (error)
        return error;
    range = emu_range_find((uintptr_t)address);
    return emu_leave(value && range && (int)what == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
                         ? CUDA_SUCCESS
                         : CUDA_ERROR_INVALID_VALUE);
}
