/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c -- streams, events, host functions
 */
#include <stdlib.h>

#include "runtime.h"

CALL(cudaStreamCreate, (cudaStream_t * stream), StreamCreateWithPriority(stream, 0, 0))
CALL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
     StreamCreateWithPriority(stream, flags, 0))
CALL(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
     StreamCreateWithPriority(stream, flags, priority))
CALL(cudaStreamDestroy, (cudaStream_t stream), StreamDestroy(stream))
CALLS(cudaStreamSynchronize, (cudaStream_t stream), StreamSynchronize, (stream))
CALLS(cudaStreamQuery, (cudaStream_t stream), StreamQuery, (stream))
CALLS(cudaStreamGetPriority, (cudaStream_t stream, int *priority), StreamGetPriority,
      (stream, priority))
CALLS(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags), StreamGetFlags, (stream, flags))
CALLS(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
      StreamWaitEvent, (stream, event, flags))
CALLS(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data), LaunchHostFunc,
      (stream, function, data))
/* The status has the same values, so the program's function is the driver's. */
CALLS(cudaStreamAddCallback,
      (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned flags),
      StreamAddCallback, (stream, (CUstreamCallback)callback, data, flags))

CALL(cudaEventCreate, (cudaEvent_t * event), EventCreate(event, 0))
CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), EventCreate(event, flags))
CALL(cudaEventDestroy, (cudaEvent_t event), EventDestroy(event))
CALL(cudaEventQuery, (cudaEvent_t event), EventQuery(event))
CALL(cudaEventSynchronize, (cudaEvent_t event), EventSynchronize(event))
CALL(cudaEventElapsedTime, (float *milliseconds, cudaEvent_t begin, cudaEvent_t end),
     EventElapsedTime(milliseconds, begin, end))
CALLS(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), EventRecordWithFlags,
      (event, stream, 0))
CALLS(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
      EventRecordWithFlags, (event, stream, flags))
