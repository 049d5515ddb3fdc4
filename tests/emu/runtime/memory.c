/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c -- memory of devices and hosts, and what an address belongs to
 */
#include <string.h>

#include "runtime.h"

RT cudaMalloc(void **memory, size_t size)
{
    cudaError_t error = runtime_ready();
    CUdeviceptr address = 0;

    if (!error && !memory)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = (cudaError_t)driver.MemAlloc(&address, size);
    if (!error)
        *memory = (void *)(uintptr_t)address;
    return runtime_said(error);
}

RT cudaMallocManaged(void **memory, size_t size, unsigned flags)
{
    cudaError_t error = runtime_ready();
    CUdeviceptr address;

    if (!error)
        error = (cudaError_t)driver.MemAllocManaged(&address, size, flags);
    if (!error)
        *memory = (void *)(uintptr_t)address;
    return runtime_said(error);
}

CALL(cudaFree, (void *memory), MemFree((uintptr_t)memory))
CALL(cudaHostAlloc, (void **memory, size_t size, unsigned flags), MemHostAlloc(memory, size, flags))
CALL(cudaMallocHost, (void **memory, size_t size), MemHostAlloc(memory, size, 0))
CALL(cudaFreeHost, (void *memory), MemFreeHost(memory))
CALL(cudaHostRegister, (void *memory, size_t size, unsigned flags),
     MemHostRegister(memory, size, flags))
CALL(cudaHostUnregister, (void *memory), MemHostUnregister(memory))
CALL(cudaHostGetFlags, (unsigned *flags, void *memory), MemHostGetFlags(flags, memory))
CALL(cudaMemGetInfo, (size_t * available, size_t *total), MemGetInfo(available, total))

RT cudaHostGetDevicePointer(void **there, void *memory, unsigned flags)
{
    cudaError_t error = runtime_ready();
    CUdeviceptr address;

    if (!error)
        error = (cudaError_t)driver.MemHostGetDevicePointer(&address, memory, flags);
    if (!error)
        *there = (void *)(uintptr_t)address;
    return runtime_said(error);
}

RT cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    cudaError_t error = runtime_ready();
    unsigned type, managed;
    int what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                  CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&type, &attributes->device, &attributes->devicePointer,
                    &attributes->hostPointer, &managed};

    if (error)
        return runtime_said(error);
    memset(attributes, 0, sizeof(*attributes));
    error = (cudaError_t)driver.PointerGetAttributes(5, what, data, (uintptr_t)memory);
    if (error)
        return runtime_said(error);
    attributes->type = managed                        ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                       : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                      : cudaMemoryTypeUnregistered;
    if (attributes->type == cudaMemoryTypeUnregistered)
        attributes->hostPointer = (void *)memory;
    return cudaSuccess;
}
