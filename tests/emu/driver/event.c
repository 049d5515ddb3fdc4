/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c -- events: a place in a stream, and when it was passed
 *
 * One that other processes may have counts its records, and those that were passed, in a shared
 * page.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "emu.h"

#define MAGIC 0x65766521

/* Never freed: works that record it may outlive it. */
struct CUevent_st {
    uint32_t magic;
    CUcontext context;
    unsigned flags;
    CUstream stream; /* where it was recorded last; NULL: never */
    uint64_t number;
    uint64_t passed;         /* nanoseconds */
    struct capture *capture; /* recorded in a captured stream */
    struct nodes nodes;
    int file; /* of the shared page */
    struct shared {
        _Atomic uint64_t recorded, passed;
    } * shared;
};

struct record {
    struct work work;
    CUevent event;
    uint64_t count; /* of a shared one */
};

static void passed(struct work *work)
{
    struct record *record = (struct record *)work;
    CUevent event = record->event;
    struct timespec now;

    if (event->shared && event->shared->passed < record->count)
        event->shared->passed = record->count;
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
    if (event->shared)
        return event->shared->passed >= event->shared->recorded;
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
    if (flags & CU_EVENT_INTERPROCESS) {
        made->file = memfd_create("emulated-event", MFD_CLOEXEC);
        if (made->file >= 0 && !ftruncate(made->file, (off_t)EMU_PAGE))
            made->shared = mmap(NULL, EMU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, made->file, 0);
        if (!made->shared || made->shared == MAP_FAILED) {
            free(made);
            return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
        }
    }
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
    CUstream stream;
    CUresult error =
        emu_enter_stream(handle, valid(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, &stream);
    struct record *made;
    uint64_t number;

    if (error)
        return error;
    if (event->context->device != stream->context->device)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture && !flags) { /* no work, but a place in the graph */
        event->capture = stream->capture;
        return emu_leave(emu_nodes_set(&event->nodes, &stream->tail) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_OUT_OF_MEMORY);
    }
    if (stream->capture)
        return emu_leave(emu_capture_void(stream->capture, CUDA_ERROR_NOT_SUPPORTED));
    made = emu_work(sizeof(*made), NULL);
    if (made) {
        made->event = event;
        made->work.done = passed;
        if (event->shared)
            made->count = ++event->shared->recorded;
    }
    error = emu_submit(stream, (struct work *)made, &number);
    if (!error) {
        event->capture = NULL;
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

struct await {
    struct work work;
    struct shared *shared;
    uint64_t count;
};

static CUresult await_other(struct work *work)
{
    struct await *await = (struct await *)work;

    while (await->shared->passed < await->count && !work->context->destroyed)
        usleep(50);
    return CUDA_SUCCESS;
}

static CUresult cuStreamWaitEvent_on(CUstream handle, CUevent event, unsigned flags)
{
    CUresult wrong = flags > 1      ? CUDA_ERROR_INVALID_VALUE
                     : valid(event) ? CUDA_SUCCESS
                                    : CUDA_ERROR_INVALID_HANDLE;
    CUstream stream;
    CUresult error = emu_enter_stream(handle, wrong, &stream);
    struct await *made;

    if (error)
        return error;
    if (event->capture)
        return emu_leave(emu_capture_join(stream, event->capture, &event->nodes));
    if (stream->capture)
        return emu_leave(emu_capture_void(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION));
    if (finished(event))
        return emu_leave(CUDA_SUCCESS);
    made = emu_work(sizeof(*made), event->shared ? await_other : NULL);
    if (made && event->shared) {
        made->shared = event->shared;
        made->count = event->shared->recorded;
    } else if (made) {
        emu_work_wait(&made->work, event->stream, event->number);
    }
    return emu_leave(emu_submit(stream, (struct work *)made, NULL));
}
STREAMED(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
         (stream, event, flags))

/* Enters to ask whether it was passed. */
static CUresult enter_to_ask(CUevent event, CUcontext *current)
{
    CUresult error = emu_enter_context(current);

    if (error)
        return error;
    if (!valid(event))
        error = CUDA_ERROR_INVALID_HANDLE;
    else if (event->capture)
        error = emu_capture_void(event->capture, CUDA_ERROR_CAPTURED_EVENT);
    else
        error = emu_unsafe();
    return error ? emu_leave(error) : CUDA_SUCCESS;
}

API cuEventQuery(CUevent event)
{
    CUcontext current;
    CUresult error = enter_to_ask(event, &current);

    if (error)
        return error;
    return emu_leave(finished(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

API cuEventSynchronize(CUevent event)
{
    CUcontext current;
    CUresult error = enter_to_ask(event, &current);

    if (error)
        return error;
    if (event->shared) {
        struct shared *shared = event->shared;
        uint64_t count = shared->recorded;

        pthread_mutex_unlock(&emu_lock);
        while (shared->passed < count && !current->destroyed && !current->error)
            usleep(50);
        pthread_mutex_lock(&emu_lock);
        error = current->error;
    } else if (event->stream) {
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

API cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!handle || !valid(event) || !event->shared)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    memset(handle, 0, sizeof(*handle));
    snprintf(handle->reserved, sizeof(handle->reserved), "/proc/%d/fd/%d", getpid(), event->file);
    return emu_leave(CUDA_SUCCESS);
}

API cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    CUevent made;
    int file;

    if (error)
        return error;
    handle.reserved[sizeof(handle.reserved) - 1] = 0;
    file = event ? open(handle.reserved, O_RDWR | O_CLOEXEC) : -1;
    made = file < 0 ? NULL : calloc(1, sizeof(*made));
    if (!made)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made->magic = MAGIC;
    made->context = current;
    made->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    made->file = file;
    made->shared = mmap(NULL, EMU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (made->shared == MAP_FAILED) {
        free(made);
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *event = made;
    return emu_leave(CUDA_SUCCESS);
}
