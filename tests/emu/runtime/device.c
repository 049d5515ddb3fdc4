/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c -- devices and their properties
 */
#include <string.h>

#include "runtime.h"

RT cudaGetDeviceCount(int *count)
{
    cudaError_t error = runtime_loaded();

    *count = 0;
    return runtime_said(error ? error : (cudaError_t)driver.DeviceGetCount(count));
}

RT cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    cudaError_t error = runtime_loaded();

    return runtime_said(error ? error
                              : (cudaError_t)driver.DeviceGetAttribute(value, (int)what, device));
}

static int attribute(int what, int device)
{
    int value = 0;

    driver.DeviceGetAttribute(&value, what, device);
    return value;
}

RT cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    cudaError_t error = runtime_loaded();
    size_t bytes;

    if (!error)
        error = (cudaError_t)driver.DeviceTotalMem(&bytes, device);
    if (error)
        return runtime_said(cudaErrorInvalidDevice);
    memset(p, 0, sizeof(*p));
    driver.DeviceGetName(p->name, sizeof(p->name), device);
    driver.DeviceGetUuid(&p->uuid, device);
    p->totalGlobalMem = bytes;
#define FIELD(field, name) p->field = attribute(CU_DEVICE_ATTRIBUTE_##name, device)
    FIELD(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    FIELD(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
    FIELD(warpSize, WARP_SIZE);
    FIELD(memPitch, MAX_PITCH);
    FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    FIELD(maxThreadsDim[0], MAX_BLOCK_DIM_X);
    FIELD(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
    FIELD(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
    FIELD(maxGridSize[0], MAX_GRID_DIM_X);
    FIELD(maxGridSize[1], MAX_GRID_DIM_Y);
    FIELD(maxGridSize[2], MAX_GRID_DIM_Z);
    FIELD(totalConstMem, TOTAL_CONSTANT_MEMORY);
    FIELD(major, COMPUTE_CAPABILITY_MAJOR);
    FIELD(minor, COMPUTE_CAPABILITY_MINOR);
    FIELD(textureAlignment, TEXTURE_ALIGNMENT);
    FIELD(multiProcessorCount, MULTIPROCESSOR_COUNT);
    FIELD(canMapHostMemory, CAN_MAP_HOST_MEMORY);
    FIELD(concurrentKernels, CONCURRENT_KERNELS);
    FIELD(pciBusID, PCI_BUS_ID);
    FIELD(asyncEngineCount, ASYNC_ENGINE_COUNT);
    FIELD(unifiedAddressing, UNIFIED_ADDRESSING);
    FIELD(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
    FIELD(l2CacheSize, L2_CACHE_SIZE);
    FIELD(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
    FIELD(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
    FIELD(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    FIELD(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    FIELD(managedMemory, MANAGED_MEMORY);
    FIELD(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS);
    FIELD(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS);
    FIELD(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    FIELD(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    FIELD(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
    FIELD(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
    FIELD(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
    return cudaSuccess;
}

RT cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    cudaError_t error = runtime_loaded();

    return runtime_said(error ? error
                              : (cudaError_t)driver.DeviceGetPCIBusId(text, length, device));
}

RT cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = runtime_loaded();

    return runtime_said(error ? error : (cudaError_t)driver.DeviceCanAccessPeer(can, device, peer));
}

RT cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUcontext context;
    cudaError_t error = runtime_ready();

    if (!error)
        error = runtime_context(peer, &context);
    return runtime_said(error ? error : (cudaError_t)driver.CtxEnablePeerAccess(context, flags));
}

RT cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    cudaError_t error = runtime_ready();

    if (!error)
        error = runtime_context(peer, &context);
    return runtime_said(error ? error : (cudaError_t)driver.CtxDisablePeerAccess(context));
}

CALL(cudaDeviceSynchronize, (void), CtxSynchronize(NULL))
CALL(cudaDeviceReset, (void), DevicePrimaryCtxReset(runtime_device()))
CALL(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
     CtxGetStreamPriorityRange(least, greatest))

RT cudaProfilerStart(void)
{
    return cudaSuccess;
}

RT cudaProfilerStop(void)
{
    return cudaSuccess;
}
