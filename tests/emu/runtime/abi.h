/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abi.h -- what the emulated runtime needs of CUDA's binary interface; see ../abi.h
 *
 * Of CUDA 13's, or with EMU_RUNTIME 12 of CUDA 12.8's, where some structures have other members and
 * some functions no edges of graphs.
 */
#ifndef EMU_RUNTIME_ABI_H
#define EMU_RUNTIME_ABI_H

#include "../abi.h"

#ifndef EMU_RUNTIME
#define EMU_RUNTIME 13
#endif

#if EMU_RUNTIME == 12
#define ONLY_12(...) __VA_ARGS__
#define ONLY_13(...)
#define RUNTIME_VERSION 12080
#else
#define ONLY_12(...)
#define ONLY_13(...) __VA_ARGS__
#define RUNTIME_VERSION 13000
#endif

#ifdef EMU_TOOLKIT
#include <cuda_runtime_api.h>
#else

#if EMU_RUNTIME == 12
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v2
#endif

typedef enum cudaError {
#define R(name, value, text) name = value,
#define X(driver, name, value, text) R(name, value, text)
#include "../errors.def"
#undef X
#undef R
} cudaError_t;

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphExec cudaGraphExec_t;
typedef CUgraphNode cudaGraphNode_t;
typedef CUmemoryPool cudaMemPool_t;
typedef CUuserObject cudaUserObject_t;
typedef CUgraphEdgeData cudaGraphEdgeData;
typedef CUhostFn cudaHostFn_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct CUlib_st *cudaLibrary_t;
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *data);
typedef unsigned long long cudaGraphConditionalHandle;

typedef struct dim3 {
    unsigned x, y, z;
} dim3;
typedef struct uint3 {
    unsigned x, y, z;
} uint3;
typedef struct cudaIpcMemHandle_st {
    char reserved[64];
} cudaIpcMemHandle_t;
typedef struct cudaIpcEventHandle_st {
    char reserved[64];
} cudaIpcEventHandle_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};
enum cudaMemoryType {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged,
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal };
enum cudaDeviceAttr { cudaDevAttrMaxThreadsPerBlock = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemPoolAttr { cudaMemPoolReuseFollowEventDependencies = 1 };
enum cudaGraphMemAttributeType { cudaGraphMemAttrUsedMemCurrent };
enum cudaJitOption { cudaJitMaxRegisters };
enum cudaLibraryOption { cudaLibraryHostUniversalFunctionAndDataTable };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
    ONLY_13(long reserved[8];)
};

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
    int maxDynamicSharedSizeBytes, preferredShmemCarveout, clusterDimMustBeSet;
    int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
    int reserved[16];
};

typedef struct cudaLaunchConfig_st {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    struct cudaLaunchAttribute_st *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

struct cudaMemLocation {
    int type, id;
};
struct cudaMemAccessDesc {
    struct cudaMemLocation location;
    int flags;
};
struct cudaMemcpyAttributes {
    int srcAccessOrder;
    struct cudaMemLocation srcLocHint, dstLocHint;
    unsigned flags;
};
struct cudaGraphNodeParams {
    int type, reserved[3];
    long long parameters[29], more;
};

struct cudaDeviceProp {
    char name[256];
    CUuuid uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    ONLY_12(int clockRate;)
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    ONLY_12(int deviceOverlap;)
    int multiProcessorCount;
    ONLY_12(int kernelExecTimeoutEnabled;)
    int integrated, canMapHostMemory;
    ONLY_12(int computeMode;)
    int textures_and_surfaces[39];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
    int asyncEngineCount, unifiedAddressing;
    ONLY_12(int memoryClockRate;)
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported;
    int localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    ONLY_12(int singleToDoublePrecisionPerfRatio;)
    int pageableMemoryAccess, concurrentManagedAccess;
    int computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
    ONLY_12(int cooperativeMultiDeviceLaunch;)
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
    int unifiedFunctionPointers;
    ONLY_12(int reserved[63];)
    ONLY_13(int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
            unsigned gpuPciDeviceID, gpuPciSubsystemID;
            int hostNumaMultinodeIpcSupported, reserved[56];)
};
#endif

_Static_assert(sizeof(struct cudaPointerAttributes) == ONLY_12(24) ONLY_13(88),
               "cudaPointerAttributes");
_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "cudaFuncAttributes");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56, "cudaLaunchConfig_t");
_Static_assert(sizeof(struct cudaMemAccessDesc) == 12, "cudaMemAccessDesc");
_Static_assert(sizeof(struct cudaMemcpyAttributes) == 24, "cudaMemcpyAttributes");
_Static_assert(sizeof(struct cudaGraphNodeParams) == 256, "cudaGraphNodeParams");
_Static_assert(sizeof(struct cudaDeviceProp) == ONLY_12(1032) ONLY_13(1008), "cudaDeviceProp");
_Static_assert(offsetof(struct cudaDeviceProp, surfaceAlignment) == ONLY_12(568) ONLY_13(552),
               "cudaDeviceProp");
_Static_assert(offsetof(struct cudaDeviceProp, sharedMemPerBlockOptin) == ONLY_12(696) ONLY_13(672),
               "cudaDeviceProp");
#define R(name, value, text) _Static_assert(name == value, #name);
#define X(driver, name, value, text) R(name, value, text)
#include "../errors.def"
#undef X
#undef R

#endif
