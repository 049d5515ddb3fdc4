/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api.h -- the driver's functions that tests call, as cuda.h declares them
 */
#ifndef EMU_API_H
#define EMU_API_H

#include "abi.h"

/* Older forms, which newer headers do not declare. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);

/* Those for which newer headers have another name, by which the driver exports them all the same.
 */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *indices,
                               size_t attributes_count, CUstream stream);

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags);

#ifndef EMU_TOOLKIT
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value);
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t size);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *properties, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t size);
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                        size_t count);
CUresult cuMemExportToShareableHandle(void *descriptor, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *descriptor,
                                        CUmemAllocationHandleType type);
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *rectangle);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *rectangle);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *rectangle, CUstream stream);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *box);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *box, CUstream stream);
CUresult cuInit(unsigned flags);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSynchronize(void);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUresult cuMemHostAlloc(void **memory, size_t size, unsigned flags);
CUresult cuMemFreeHost(void *memory);
CUresult cuMemHostRegister_v2(void *memory, size_t size, unsigned flags);
CUresult cuMemHostUnregister(void *memory);
CUresult cuMemHostGetFlags(unsigned *flags, void *memory);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags);
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute what, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *what, void **data,
                                CUdeviceptr address);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t size, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                        void **arguments, void **extra);
CUresult cuGetErrorName(CUresult error, const char **text);
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status);
#endif

#endif
