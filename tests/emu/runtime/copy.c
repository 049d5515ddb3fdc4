/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c -- copies and fills: by kind to the driver's function for it
 */
#include "runtime.h"

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

static cudaError_t copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, bool pt)
{
    cudaError_t error = runtime_ready();

    if (error)
        return error;
    switch (kind) {
    case cudaMemcpyDeviceToHost:
        return (cudaError_t)(pt ? driver.MemcpyDtoH_pt : driver.MemcpyDtoH)(to, ADDRESS(from),
                                                                            size);
    case cudaMemcpyHostToDevice:
        return (cudaError_t)(pt ? driver.MemcpyHtoD_pt : driver.MemcpyHtoD)(ADDRESS(to), from,
                                                                            size);
    case cudaMemcpyDeviceToDevice:
        return (cudaError_t)(pt ? driver.MemcpyDtoD_pt : driver.MemcpyDtoD)(ADDRESS(to),
                                                                            ADDRESS(from), size);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return (cudaError_t)(pt ? driver.Memcpy_pt : driver.Memcpy)(ADDRESS(to), ADDRESS(from),
                                                                    size);
    }
    return cudaErrorInvalidValue;
}

RT cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    return runtime_said(copy(to, from, size, kind, false));
}

RT cudaMemcpy_ptds(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    return runtime_said(copy(to, from, size, kind, true));
}

static cudaError_t copy_async(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                              cudaStream_t stream, bool pt)
{
    cudaError_t error = runtime_ready();

    if (error)
        return error;
    switch (kind) {
    case cudaMemcpyDeviceToHost:
        return (cudaError_t)(pt ? driver.MemcpyDtoHAsync_pt
                                : driver.MemcpyDtoHAsync)(to, ADDRESS(from), size, stream);
    case cudaMemcpyHostToDevice:
        return (cudaError_t)(pt ? driver.MemcpyHtoDAsync_pt
                                : driver.MemcpyHtoDAsync)(ADDRESS(to), from, size, stream);
    case cudaMemcpyDeviceToDevice:
        return (cudaError_t)(pt ? driver.MemcpyDtoDAsync_pt
                                : driver.MemcpyDtoDAsync)(ADDRESS(to), ADDRESS(from), size, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return (cudaError_t)(pt ? driver.MemcpyAsync_pt
                                : driver.MemcpyAsync)(ADDRESS(to), ADDRESS(from), size, stream);
    }
    return cudaErrorInvalidValue;
}

RT cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                   cudaStream_t stream)
{
    return runtime_said(copy_async(to, from, size, kind, stream, false));
}

RT cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                        cudaStream_t stream)
{
    return runtime_said(copy_async(to, from, size, kind, stream, true));
}

RT cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size,
                       cudaStream_t stream)
{
    CUcontext to_context, from_context;
    cudaError_t error = runtime_ready();

    if (!error)
        error = runtime_context(to_device, &to_context);
    if (!error)
        error = runtime_context(from_device, &from_context);
    if (!error)
        error = (cudaError_t)driver.MemcpyPeerAsync(ADDRESS(to), to_context, ADDRESS(from),
                                                    from_context, size, stream);
    return runtime_said(error);
}

static CUDA_MEMCPY2D rectangle(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                               size_t width, size_t height)
{
    /* With unified addresses the driver finds out itself what they are. */
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = ADDRESS(from),
                           .srcPitch = from_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = ADDRESS(to),
                           .dstPitch = to_pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

RT cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D r = rectangle(to, to_pitch, from, from_pitch, width, height);
    cudaError_t error = runtime_ready();

    return runtime_said(error ? error : (cudaError_t)driver.Memcpy2D(&r));
}

RT cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D r = rectangle(to, to_pitch, from, from_pitch, width, height);
    cudaError_t error = runtime_ready();

    return runtime_said(error ? error : (cudaError_t)driver.Memcpy2DAsync(&r, stream));
}

#if EMU_RUNTIME >= 13 /* before, it had one more argument */
CALLS(cudaMemcpyBatchAsync,
      (void *const *to, const void *const *from, const size_t *sizes, size_t count,
       struct cudaMemcpyAttributes *attributes, size_t *indices, size_t attributes_count,
       cudaStream_t stream),
      MemcpyBatchAsync,
      ((CUdeviceptr *)to, (CUdeviceptr *)from, (size_t *)sizes, count, attributes, indices,
       attributes_count, stream))
#endif
CALL(cudaMemset, (void *to, int value, size_t size),
     MemsetD8(ADDRESS(to), (unsigned char)value, size))
CALLS(cudaMemsetAsync, (void *to, int value, size_t size, cudaStream_t stream), MemsetD8Async,
      (ADDRESS(to), (unsigned char)value, size, stream))
