/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c -- what a thread may do while streams are captured
 */
#include "emu.h"

static _Thread_local CUstreamCaptureMode mode;

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *other)
{
    CUstreamCaptureMode before = mode;

    if (!other || *other > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

CUresult emu_unsafe(void)
{
    return CUDA_SUCCESS;
}

CUresult emu_unsafe_stream(CUstream stream)
{
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult emu_captured(CUstream stream, struct work *work)
{
    emu_work_drop(work);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult emu_capture_implicit(CUcontext context)
{
    return CUDA_SUCCESS;
}

static CUresult cuStreamIsCapturing_on(CUstream handle, CUstreamCaptureStatus *status)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    CUstream stream;

    if (error)
        return error;
    if (!status)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    error = emu_stream(current, handle, &stream);
    if (!error)
        *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return emu_leave(error);
}
STREAMED(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), (stream, status))
