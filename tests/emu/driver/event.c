/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c -- events: a place in a stream, and when it was passed
 */
#include <time.h>

#include "emu.h"

#define MAGIC 0x65766521

/* Never freed: works that record it may outlive it. */
struct CUevent_st {
    uint32_t magic;
    CUcontext context;
    unsigned flags;
    CUstream stream; /* where it was recorded last; NULL: never */
    uint64_t number;
    uint64_t passed; /* nanoseconds */
};

struct record {
    struct work work;
    CUevent event;
};

static void passed(struct work *work)
{
    CUevent event = ((struct record *)work)->event;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (event->number == work->number)
        event->passed = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool valid(CUevent event)
{
    return event && event->magic == MAGIC;
}

static bool finished(CUevent event)
{
    return !event->stream || event->stream->finished >= event->number;
}

API cuEventCreate(CUevent *event, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    CUevent made;

    if (error)
        return error;
    if (!event || flags > 7 ||
        (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof(*made));
    if (!made)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->magic = MAGIC;
    made->context = current;
    made->flags = flags;
    *event = made;
    return emu_leave(CUDA_SUCCESS);
}

API cuEventDestroy_v2(CUevent event)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!valid(event))
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    event->magic = 0;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult record(CUevent event, CUstream handle, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct record *made;
    CUstream stream;
    uint64_t number;

    if (error)
        return error;
    error = valid(event) ? emu_stream(current, handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (!error && event->context->device != stream->context->device)
        error = CUDA_ERROR_INVALID_HANDLE;
    if (error)
        return emu_leave(error);
    made = emu_work(sizeof(*made), NULL);
    if (made) {
        made->event = event;
        made->work.done = passed;
    }
    error = emu_submit(stream, (struct work *)made, &number);
    if (!error) {
        event->stream = stream;
        event->number = number;
    }
    return emu_leave(error);
}

static CUresult cuEventRecord_on(CUevent event, CUstream stream)
{
    return record(event, stream, 0);
}
STREAMED(cuEventRecord, (CUevent event, CUstream stream), (event, stream))

static CUresult cuEventRecordWithFlags_on(CUevent event, CUstream stream, unsigned flags)
{
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(event, stream, flags);
}
STREAMED(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
         (event, stream, flags))

static CUresult cuStreamWaitEvent_on(CUstream handle, CUevent event, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct work *made;
    CUstream stream;

    if (error)
        return error;
    if (flags > 1)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    error = valid(event) ? emu_stream(current, handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (error || finished(event))
        return emu_leave(error);
    made = emu_work(sizeof(*made), NULL);
    if (made)
        emu_work_wait(made, event->stream, event->number);
    return emu_leave(emu_submit(stream, made, NULL));
}
STREAMED(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
         (stream, event, flags))

API cuEventQuery(CUevent event)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!valid(event))
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    error = emu_unsafe();
    if (!error && !finished(event))
        error = CUDA_ERROR_NOT_READY;
    return emu_leave(error);
}

API cuEventSynchronize(CUevent event)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!valid(event))
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    error = emu_unsafe();
    if (!error && event->stream) {
        emu_await(event->stream, event->number);
        error = event->context->error;
    }
    return emu_leave(error);
}

API cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!valid(begin) || !valid(end) || !begin->stream || !end->stream ||
        (begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!finished(begin) || !finished(end))
        return emu_leave(CUDA_ERROR_NOT_READY);
    *milliseconds = (float)((double)(int64_t)(end->passed - begin->passed) / 1e6);
    return emu_leave(CUDA_SUCCESS);
}

API cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end)
{
    return cuEventElapsedTime(milliseconds, begin, end);
}
