/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.c -- capture and graphs, pools, what other processes have
 */
#include "runtime.h"

#define EDGES(edges) ONLY_12(NULL) ONLY_13(edges)

CALLS(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
      StreamBeginCapture, (stream, (int)mode))
CALLS(cudaStreamBeginCaptureToGraph,
      (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes,
       const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode),
      StreamBeginCaptureToGraph, (stream, graph, nodes, edges, count, (int)mode))
CALLS(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), StreamEndCapture,
      (stream, graph))
CALLS(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
      StreamIsCapturing, (stream, (int *)status))
CALLS(cudaStreamGetCaptureInfo,
      (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
       cudaGraph_t *graph, const cudaGraphNode_t **nodes,
       ONLY_13(const cudaGraphEdgeData **edges, ) size_t *count),
      StreamGetCaptureInfo,
      (stream, (int *)status, (cuuint64_t *)id, graph, nodes, EDGES(edges), count))
CALLS(cudaStreamUpdateCaptureDependencies,
      (cudaStream_t stream, cudaGraphNode_t *nodes,
       ONLY_13(const cudaGraphEdgeData *edges, ) size_t count, unsigned flags),
      StreamUpdateCaptureDependencies, (stream, nodes, EDGES(edges), count, flags))
CALL(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
     ThreadExchangeStreamCaptureMode((int *)mode))

CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
     GraphGetNodes(graph, nodes, count))
CALL(cudaGraphNodeGetDependencies,
     (cudaGraphNode_t node, cudaGraphNode_t *nodes,
      ONLY_13(cudaGraphEdgeData *edges, ) size_t *count),
     GraphNodeGetDependencies(node, nodes, EDGES(edges), count))
CALL(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
     GraphInstantiate(exec, graph, flags))
CALL(cudaGraphInstantiateWithFlags,
     (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
     GraphInstantiate(exec, graph, flags))
CALLS(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), GraphLaunch, (exec, stream))
CALL(cudaGraphExecDestroy, (cudaGraphExec_t exec), GraphExecDestroy(exec))
CALL(cudaGraphDestroy, (cudaGraph_t graph), GraphDestroy(graph))
CALL(cudaUserObjectCreate,
     (cudaUserObject_t * object, void *data, cudaHostFn_t destroy, unsigned count, unsigned flags),
     UserObjectCreate(object, data, destroy, count, flags))
CALL(cudaUserObjectRelease, (cudaUserObject_t object, unsigned count),
     UserObjectRelease(object, count))
CALL(cudaGraphRetainUserObject,
     (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),
     GraphRetainUserObject(graph, object, count, flags))

/* Graphs are captured here, not built by hand, and have no conditions. */
RT cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *nodes,
                    ONLY_13(const cudaGraphEdgeData *edges, ) size_t count,
                    struct cudaGraphNodeParams *what)
{
    return runtime_said(cudaErrorNotSupported);
}

RT cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                    unsigned value, unsigned flags)
{
    return runtime_said(cudaErrorNotSupported);
}

RT cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags)
{
    return runtime_said(cudaErrorNotSupported);
}

RT cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType what, void *value)
{
    *(uint64_t *)value = 0;
    return cudaSuccess;
}

RT cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType what, void *value)
{
    return cudaSuccess;
}

/* ---- pools ---- */

CALL(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
     DeviceGetDefaultMemPool(pool, device))
CALL(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr what, void *value),
     MemPoolGetAttribute(pool, (int)what, value))
CALL(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr what, void *value),
     MemPoolSetAttribute(pool, (int)what, value))
CALL(cudaMemPoolSetAccess,
     (cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count),
     MemPoolSetAccess(pool, access, count))
CALL(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), MemPoolTrimTo(pool, keep))
CALLS(cudaMallocAsync, (void **memory, size_t size, cudaStream_t stream), MemAllocAsync,
      ((CUdeviceptr *)memory, size, stream))
CALLS(cudaMallocFromPoolAsync,
      (void **memory, size_t size, cudaMemPool_t pool, cudaStream_t stream), MemAllocFromPoolAsync,
      ((CUdeviceptr *)memory, size, pool, stream))
CALLS(cudaFreeAsync, (void *memory, cudaStream_t stream), MemFreeAsync, ((uintptr_t)memory, stream))

/* ---- other processes ---- */

CALL(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *memory),
     IpcGetMemHandle(handle, (uintptr_t)memory))
CALL(cudaIpcOpenMemHandle, (void **memory, cudaIpcMemHandle_t handle, unsigned flags),
     IpcOpenMemHandle((CUdeviceptr *)memory, handle, flags))
CALL(cudaIpcCloseMemHandle, (void *memory), IpcCloseMemHandle((uintptr_t)memory))
CALL(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
     IpcGetEventHandle(handle, event))
CALL(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
     IpcOpenEventHandle(event, handle))
