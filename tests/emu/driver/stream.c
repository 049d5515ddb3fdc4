/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c -- streams: a queue and a thread each
 *
 * Order is a matter of what a work waits for: the one before it in its stream; for the legacy
 * default stream all that blocking streams of the context have queued, and for these what it has.
 * Works of different streams run at once, whatever their priorities.
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "emu.h"

#define MAGIC 0x65747321

static _Thread_local bool in_callback;

void *emu_work(size_t size, CUresult (*run)(struct work *))
{
    struct work *work = calloc(1, size);

    if (work) {
        work->run = run;
        work->held = 1;
    }
    return work;
}

void emu_work_wait(struct work *work, CUstream stream, uint64_t number)
{
    struct wait *larger;

    if (!stream || stream->finished >= number)
        return;
    larger = realloc(work->wait, (work->waits + 1) * sizeof(*larger));
    if (!larger)
        abort();
    work->wait = larger;
    work->wait[work->waits++] = (struct wait){stream, number};
}

void emu_work_drop(struct work *work)
{
    if (--work->held)
        return;
    if (work->end)
        work->end(work);
    free(work->wait);
    free(work);
}

void emu_sleep(uint64_t nanoseconds)
{
    nanosleep(
        &(struct timespec){(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)},
        NULL);
}

static void delay(void)
{
    static uint64_t latency = UINT64_MAX; /* microseconds */

    if (latency == UINT64_MAX)
        latency = emu_setting("EMU_LATENCY", 0);
    if (latency)
        emu_sleep(latency * 1000);
}

static bool may_begin(const struct work *work)
{
    for (unsigned i = 0; i < work->waits; i++)
        if (work->wait[i].stream->finished < work->wait[i].number)
            return false;
    return true;
}

static void *serve(void *argument)
{
    CUstream stream = argument;

    pthread_mutex_lock(&emu_lock);
    for (;;) {
        struct work *work = stream->first;

        if (!work) {
            if (stream->ended)
                break;
            pthread_cond_wait(&stream->arrived, &emu_lock);
            continue;
        }
        if (!may_begin(work)) {
            pthread_cond_wait(&emu_progress, &emu_lock);
            continue; /* the queue may have been emptied meanwhile */
        }
        stream->first = work->next;
        if (!stream->first)
            stream->last = NULL;
        stream->current = work;
        if (work->run && !stream->context->error) {
            pthread_mutex_unlock(&emu_lock);
            delay();
            CUresult error = work->run(work);
            pthread_mutex_lock(&emu_lock);
            if (error && !stream->context->error)
                stream->context->error = error;
        }
        stream->current = NULL;
        stream->finished = work->number;
        if (work->done)
            work->done(work);
        emu_work_drop(work);
        pthread_cond_broadcast(&emu_progress);
    }
    stream->running = false;
    pthread_mutex_unlock(&emu_lock);
    return NULL;
}

static CUstream stream_new(CUcontext context, unsigned flags, int priority)
{
    static unsigned long long id;
    CUstream stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->magic = MAGIC;
    stream->context = context;
    stream->flags = flags;
    stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    stream->priority = priority;
    stream->id = ++id;
    pthread_cond_init(&stream->arrived, NULL);
    return stream;
}

static CUstream stream_of(CUcontext context, unsigned flags, int priority)
{
    CUstream *larger = realloc(context->streams, (context->streams_count + 1) * sizeof(*larger));
    CUstream stream = stream_new(context, flags, priority);

    if (larger)
        context->streams = larger;
    if (!larger || !stream) {
        free(stream);
        return NULL;
    }
    context->streams[context->streams_count++] = stream;
    return stream;
}

/* One for each thread and context; made when it is used first. */
static CUstream per_thread(CUcontext context)
{
    static _Thread_local CUstream own[EMU_DEVICES];
    static _Thread_local unsigned next;

    for (unsigned i = 0; i < EMU_DEVICES; i++)
        if (own[i] && own[i]->context == context && !own[i]->ended)
            return own[i];
    CUstream stream = stream_of(context, 0, 0);

    if (stream)
        own[next++ % EMU_DEVICES] = stream;
    return stream;
}

static CUresult stream_at(CUcontext current, CUstream handle, CUstream *stream)
{
    if (!handle || handle == CU_STREAM_LEGACY) {
        if (!current->legacy) {
            current->legacy = stream_new(current, 0, 0);
            if (!current->legacy)
                return CUDA_ERROR_OUT_OF_MEMORY;
            current->legacy->legacy = true;
        }
        *stream = current->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        *stream = per_thread(current);
        return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (handle->magic != MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle->context->error)
        return handle->context->error;
    *stream = handle;
    return CUDA_SUCCESS;
}

CUresult emu_enter_stream(CUstream handle, CUresult wrong, CUstream *stream)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    error = wrong ? wrong : stream_at(current, handle, stream);
    return error ? emu_leave(error) : CUDA_SUCCESS;
}

static void order_behind_default(CUstream stream, struct work *work)
{
    CUcontext context = stream->context;

    if (stream->legacy) {
        for (unsigned i = 0; i < context->streams_count; i++)
            if (context->streams[i]->blocking)
                emu_work_wait(work, context->streams[i], context->streams[i]->queued);
    } else if (stream->blocking && context->legacy) {
        emu_work_wait(work, context->legacy, context->legacy->queued);
    }
}

static bool start(CUstream stream)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, serve, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    stream->running = !error;
    return !error;
}

CUresult emu_submit(CUstream stream, struct work *work, uint64_t *number)
{
    CUresult error = CUDA_SUCCESS;

    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (number)
        *number = 0;
    work->context = stream->context;
    if (stream->capture)
        return emu_captured(stream, work);
    if (stream->legacy)
        error = emu_capture_implicit(stream->context);
    if (!error && !stream->running && !start(stream))
        error = CUDA_ERROR_OPERATING_SYSTEM;
    if (error) {
        emu_work_drop(work);
        return error;
    }
    order_behind_default(stream, work);
    work->number = ++stream->queued;
    if (stream->last)
        stream->last->next = work;
    else
        stream->first = work;
    stream->last = work;
    if (number)
        *number = work->number;
    pthread_cond_signal(&stream->arrived);
    pthread_cond_broadcast(&emu_progress); /* it may be waiting for another of its waits */
    return CUDA_SUCCESS;
}

void emu_await(CUstream stream, uint64_t number)
{
    while (stream->finished < number)
        pthread_cond_wait(&emu_progress, &emu_lock);
}

/* What is queued now; streams may come and go meanwhile. */
static void await_streams(CUcontext context, bool only_blocking)
{
    struct wait *wait = calloc(context->streams_count + 1, sizeof(*wait));
    unsigned count = 0;

    if (!wait)
        abort();
    for (unsigned i = 0; i < context->streams_count; i++)
        if (context->streams[i]->blocking || !only_blocking)
            wait[count++] = (struct wait){context->streams[i], context->streams[i]->queued};
    if (context->legacy)
        wait[count++] = (struct wait){context->legacy, context->legacy->queued};
    for (unsigned i = 0; i < count; i++)
        emu_await(wait[i].stream, wait[i].number);
    free(wait);
}

void emu_await_context(CUcontext context)
{
    await_streams(context, false);
}

/* Contexts other than the primary one do not share memory in tests. */
void emu_await_device(struct device *device)
{
    CUcontext current = emu_current();

    if (device && device->primary)
        emu_await_context(device->primary);
    if (current && current != (device ? device->primary : NULL))
        emu_await_context(current);
}

static void cut_short(CUstream stream)
{
    emu_capture_end(stream);
    stream->magic = 0;
    stream->ended = true;
    for (struct work *work = stream->first, *next; work; work = next) {
        next = work->next;
        emu_work_drop(work);
    }
    stream->first = stream->last = NULL;
    while (stream->current)
        pthread_cond_wait(&emu_progress, &emu_lock);
    stream->finished = stream->queued;
    pthread_cond_signal(&stream->arrived);
    pthread_cond_broadcast(&emu_progress);
}

void emu_streams_end(CUcontext context)
{
    for (unsigned i = 0; i < context->streams_count; i++)
        cut_short(context->streams[i]);
    free(context->streams);
    context->streams = NULL;
    context->streams_count = 0;
    if (context->legacy)
        cut_short(context->legacy);
    context->legacy = NULL;
}

/* ---- entry points ---- */

API cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    CUstream made;

    if (error)
        return error;
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    made = stream_of(current, flags, priority);
    if (made)
        *stream = made;
    return emu_leave(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

API cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

/* What is queued is still done. */
API cuStreamDestroy_v2(CUstream stream)
{
    CUcontext current, context;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        stream->magic != MAGIC)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    context = stream->context;
    emu_capture_end(stream);
    stream->magic = 0;
    stream->ended = true;
    pthread_cond_signal(&stream->arrived);
    /* It stays in the list while the default stream must wait for it. */
    for (unsigned i = 0, kept = 0, count = context->streams_count; i < count; i++) {
        CUstream other = context->streams[i];

        if (!other->ended || other->finished < other->queued)
            context->streams[kept++] = other;
        context->streams_count = kept;
    }
    return emu_leave(CUDA_SUCCESS);
}

static CUresult cuStreamSynchronize_on(CUstream handle)
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);

    if (error)
        return error;
    if (stream->capture)
        return emu_leave(emu_unsafe_stream(stream));
    if (stream->legacy) { /* what it would wait for it waits for now */
        error = emu_capture_implicit(stream->context);
        if (!error)
            await_streams(stream->context, true);
    }
    if (!error) {
        emu_await(stream, stream->queued);
        error = stream->context->error;
    }
    return emu_leave(error);
}
STREAMED(cuStreamSynchronize, (CUstream stream), (stream))

static CUresult cuStreamQuery_on(CUstream handle)
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);
    bool finished;

    if (error)
        return error;
    if (stream->capture)
        return emu_leave(emu_unsafe_stream(stream));
    finished = stream->finished == stream->queued;
    if (stream->legacy)
        for (unsigned i = 0; i < stream->context->streams_count; i++)
            finished &=
                !stream->context->streams[i]->blocking ||
                stream->context->streams[i]->finished == stream->context->streams[i]->queued;
    return emu_leave(finished ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}
STREAMED(cuStreamQuery, (CUstream stream), (stream))

#define TELL(name, type, member)                                                                   \
    static CUresult name##_on(CUstream handle, type *value)                                        \
    {                                                                                              \
        CUstream stream;                                                                           \
        CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);                          \
                                                                                                   \
        if (error)                                                                                 \
            return error;                                                                          \
        *value = stream->member;                                                                   \
        return emu_leave(CUDA_SUCCESS);                                                            \
    }                                                                                              \
    STREAMED(name, (CUstream stream, type * value), (stream, value))

TELL(cuStreamGetPriority, int, priority)
TELL(cuStreamGetFlags, unsigned, flags)
TELL(cuStreamGetId, unsigned long long, id)
TELL(cuStreamGetCtx, CUcontext, context)
TELL(cuStreamGetDevice, CUdevice, context->device->ordinal)

/* ---- the program's functions in a stream ---- */

struct call {
    struct work work;
    CUhostFn function;
    CUstreamCallback callback;
    CUstream handle;
    void *data;
};

bool emu_in_callback(void)
{
    return in_callback;
}

static CUresult call(struct work *work)
{
    struct call *call = (struct call *)work;

    in_callback = true;
    if (call->function)
        call->function(call->data);
    else
        call->callback(call->handle, CUDA_SUCCESS, call->data);
    in_callback = false;
    return CUDA_SUCCESS;
}

static CUresult submit_call(CUstream handle, CUhostFn function, CUstreamCallback callback,
                            void *data)
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);
    struct call *made;

    if (error)
        return error;
    if (callback && stream->capture)
        return emu_leave(emu_unsafe_stream(stream));
    made = emu_work(sizeof(*made), call);
    if (made) {
        made->function = function;
        made->callback = callback;
        made->handle = handle;
        made->data = data;
    }
    return emu_leave(emu_submit(stream, (struct work *)made, NULL));
}

static CUresult cuLaunchHostFunc_on(CUstream stream, CUhostFn function, void *data)
{
    return function ? submit_call(stream, function, NULL, data) : CUDA_ERROR_INVALID_VALUE;
}
STREAMED(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data),
         (stream, function, data))

static CUresult cuStreamAddCallback_on(CUstream stream, CUstreamCallback callback, void *data,
                                       unsigned flags)
{
    return callback && !flags ? submit_call(stream, NULL, callback, data)
                              : CUDA_ERROR_INVALID_VALUE;
}
STREAMED(cuStreamAddCallback,
         (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
         (stream, callback, data, flags))
