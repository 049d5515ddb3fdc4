/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c -- cuInit, the calling thread, contexts
 *
 * A forked child of a process that called cuInit gets CUDA_ERROR_NOT_INITIALIZED from everything,
 * and after the driver's own atexit handler all calls get CUDA_ERROR_DEINITIALIZED, as with the
 * real driver. A context never goes: its handle stays known, so that its use is an error.
 */
#include <string.h>

#include "emu.h"

#define STACK 16 /* contexts pushed by one thread */

pthread_mutex_t emu_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t emu_progress = PTHREAD_COND_INITIALIZER;

static enum { BEFORE, READY, FORKED, ENDED } state;
static CUcontext *contexts;
static unsigned contexts_count;
static _Thread_local CUcontext stack[STACK];
static _Thread_local unsigned depth;

__attribute__((visibility("default"))) struct emu_counts emu_counts;

CUresult emu_enter(void)
{
    static const CUresult results[] = {CUDA_ERROR_NOT_INITIALIZED, CUDA_SUCCESS,
                                       CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED};

    if (state != READY)
        return results[state];
    if (emu_in_callback())
        return CUDA_ERROR_NOT_PERMITTED;
    pthread_mutex_lock(&emu_lock);
    emu_counts.calls++;
    return CUDA_SUCCESS;
}

CUresult emu_leave(CUresult result)
{
    pthread_mutex_unlock(&emu_lock);
    return result;
}

CUresult emu_enter_context(CUcontext *current)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    *current = emu_current();
    if (!*current)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if ((*current)->destroyed)
        return emu_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if ((*current)->error)
        return emu_leave((*current)->error);
    return CUDA_SUCCESS;
}

CUcontext emu_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static bool alive(CUcontext context)
{
    for (unsigned i = 0; i < contexts_count; i++)
        if (contexts[i] == context)
            return !context->destroyed;
    return false;
}

bool emu_reaches(CUcontext context, const struct device *device)
{
    return !device || context->device == device || context->peers >> device->ordinal & 1;
}

static void forked(void)
{
    if (state == READY)
        state = FORKED;
}

static void ended(void)
{
    state = ENDED;
}

API cuInit(unsigned flags)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    CUresult result = CUDA_SUCCESS;

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (state == FORKED || state == ENDED)
        return state == FORKED ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_DEINITIALIZED;
    pthread_mutex_lock(&once);
    if (state == BEFORE) {
        result = emu_devices_begin();
        if (!result) {
            pthread_atfork(NULL, NULL, forked);
            atexit(ended);
            state = READY;
        }
    }
    pthread_mutex_unlock(&once);
    return result;
}

API cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = EMU_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static CUcontext context_new(struct device *device)
{
    static unsigned long long id;
    CUcontext context = calloc(1, sizeof(*context));
    CUcontext *larger = realloc(contexts, (contexts_count + 1) * sizeof(*contexts));

    if (larger)
        contexts = larger;
    if (!context || !larger) {
        free(context);
        return NULL;
    }
    context->device = device;
    context->id = ++id;
    contexts[contexts_count++] = context;
    return context;
}

/* All that was made in it goes; whoever waits for one of its streams gets on. */
static void context_end(CUcontext context)
{
    emu_streams_end(context);
    if (context == context->device->primary)
        emu_pools_end(context->device);
    emu_mapped_end(context);
    emu_memory_end(context);
    emu_host_end(context);
    context->destroyed = true;
    pthread_cond_broadcast(&emu_progress);
}

/* Made if there is none; NULL without memory. */
static CUcontext primary_of(struct device *device)
{
    if (!device->primary)
        device->primary = context_new(device);
    return device->primary;
}

/* Enters, and finds the device. */
static CUresult enter_device(CUdevice ordinal, struct device **device)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    *device = emu_device(ordinal);
    return *device ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_DEVICE);
}

API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
    struct device *device;
    CUresult error = enter_device(ordinal, &device);
    CUcontext primary;

    if (error)
        return error;
    if (!context)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    primary = primary_of(device);
    if (!primary)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    primary->retained++;
    *context = primary;
    return emu_leave(CUDA_SUCCESS);
}

/* The handle stays the same when the primary context is made anew, as with the real driver. */
static void primary_end(struct device *device)
{
    CUcontext primary = device->primary;

    context_end(primary);
    primary->destroyed = false;
    primary->error = CUDA_SUCCESS;
    primary->peers = 0;
    primary->retained = 0;
}

API cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    struct device *device;
    CUresult error = enter_device(ordinal, &device);

    if (error)
        return error;
    if (!device->primary || !device->primary->retained)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--device->primary->retained == 0)
        primary_end(device);
    return emu_leave(CUDA_SUCCESS);
}

API cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
    struct device *device;
    CUresult error = enter_device(ordinal, &device);

    if (error)
        return error;
    if (device->primary) {
        unsigned retained = device->primary->retained;

        primary_end(device);
        device->primary->retained = retained;
    }
    return emu_leave(CUDA_SUCCESS);
}

API cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active)
{
    struct device *device;
    CUresult error = enter_device(ordinal, &device);

    if (error)
        return error;
    if (!flags || !active)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = device->primary ? device->primary->flags : 0;
    *active = device->primary && device->primary->retained;
    return emu_leave(CUDA_SUCCESS);
}

API cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags)
{
    struct device *device;
    CUresult error = enter_device(ordinal, &device);

    if (error)
        return error;
    if (!primary_of(device))
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    device->primary->flags = flags;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult push(CUcontext context)
{
    if (depth == STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

API cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice ordinal)
{
    struct device *device;
    CUresult error = enter_device(ordinal, &device);
    CUcontext made;

    if (error)
        return error;
    if (!context)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = context_new(device);
    if (!made)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->flags = flags;
    error = push(made);
    if (!error)
        *context = made;
    return emu_leave(error);
}

API cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned flags,
                   CUdevice ordinal)
{
    return count ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, ordinal);
}

API cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags,
                   CUdevice ordinal)
{
    return parameters ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, ordinal);
}

API cuCtxDestroy_v2(CUcontext context)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!alive(context) || context == context->device->primary)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth && stack[depth - 1] == context)
        depth--;
    context_end(context);
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    return emu_leave(alive(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT);
}

API cuCtxPopCurrent_v2(CUcontext *context)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!depth)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (context)
        *context = stack[depth];
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxSetCurrent(CUcontext context)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (context && !alive(context))
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth)
        depth--;
    return emu_leave(context ? push(context) : CUDA_SUCCESS);
}

API cuCtxGetCurrent(CUcontext *context)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!context)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *context = emu_current();
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxGetDevice(CUdevice *device)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!device)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *device = current->device->ordinal;
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    CUresult error;

    if (!context)
        return cuCtxGetDevice(device);
    error = emu_enter();
    if (error)
        return error;
    if (!device || !alive(context))
        return emu_leave(device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
    *device = context->device->ordinal;
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxGetFlags(unsigned *flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    *flags = current->flags;
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!context)
        context = emu_current();
    if (!alive(context))
        return emu_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    *id = context->id;
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    *version = EMU_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext context)
{
    CUresult error = emu_unsafe();

    if (!error) {
        emu_await_context(context);
        error = context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->error;
    }
    return emu_leave(error);
}

API cuCtxSynchronize(void)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    return error ? error : synchronize(current);
}

API cuCtxSynchronize_v2(CUcontext context)
{
    CUresult error;

    if (!context)
        return cuCtxSynchronize();
    error = emu_enter();
    if (error)
        return error;
    return alive(context) ? synchronize(context) : emu_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* Limits are remembered by nobody: nothing here depends on them. */
API cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    return error ? error : emu_leave(CUDA_SUCCESS);
}

API cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (flags || !alive(peer))
        return emu_leave(flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT);
    if (peer->device == current->device)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (current->peers >> peer->device->ordinal & 1)
        return emu_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    current->peers |= 1u << peer->device->ordinal;
    return emu_leave(CUDA_SUCCESS);
}

API cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    if (!alive(peer))
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!(current->peers >> peer->device->ordinal & 1))
        return emu_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    current->peers &= ~(1u << peer->device->ordinal);
    return emu_leave(CUDA_SUCCESS);
}
