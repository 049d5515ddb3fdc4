/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.c -- copies out of a device's memory, made into the ring
 *
 * The call is made for real, on its stream, at its place in the order of that stream; only
 * where it copies to is another: a slot of the ring, which then appears at the program's
 * memory (promise.h). So what is captured is what CUDA says that a copy holds, and a call that is
 * not known here costs speed, never bytes. Into pageable memory a copy has returned
 * when its bytes are there; so has ours.
 *
 * Nothing here needs CUDA to be there when it is built or loaded: the driver's functions are
 * looked up in libcuda.so.1 if the program has loaded it. No context is made, none is
 * changed. Constants and signatures: cuda.h of CUDA 11.8 to 13, "CUDA Driver API".
 *
 * No lock of ours is held across a call of CUDA's.
 */
#include "cuda.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "cuda_pin.h"
#include "file.h"
#include "origin.h"
#include "promise.h"
#include "real.h"
#include "shim.h"
#include "versions.h"

#define LEAST (1ul << 20) /* smaller copies are not worth a mapping */
#define SLOTS 64          /* that a copy is made in at most: a ring that drains is in pieces */

#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
#define CU_POINTER_ATTRIBUTE_MEMORY_TYPE 2
#define CU_POINTER_ATTRIBUTE_IS_MANAGED 8
#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL 9
#define CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS 88
#define CU_MEMORYTYPE_DEVICE 2
#define CU_STREAM_LEGACY 1
#define CU_STREAM_PER_THREAD 2
#define CU_STREAM_CAPTURE_STATUS_NONE 0
#define CU_STREAM_CAPTURE_MODE_RELAXED 2

#define DRIVER                                                                                     \
    NEEDS(cuPointerGetAttribute, (void *value, int attribute, uint64_t pointer))                   \
    NEEDS(cuDeviceGet, (int *device, int ordinal))                                                 \
    NEEDS(cuDeviceGetAttribute, (int *value, int attribute, int device))                           \
    NEEDS(cuStreamSynchronize, (void *stream))                                                     \
    NEEDS(cuStreamIsCapturing, (void *stream, int *status))                                        \
    NEEDS(cuMemHostRegister_v2, (void *start, size_t length, unsigned flags))                      \
    NEEDS(cuMemHostUnregister, (void *start))                                                      \
    NEEDS(cuThreadExchangeStreamCaptureMode, (int *mode))

static struct {
#define NEEDS(name, parameters) int(*name) parameters;
    DRIVER
#undef NEEDS
} cu;

/* Of this thread: a call of CUDA's makes others. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* Finds the driver's functions, if it is there. No lock: twice the same is found. */
static bool driver(void)
{
    static _Atomic int found; /* 1: all; 2: one is missing */
    void *library;
    bool all = true;

    if (found != 0)
        return found == 1;
    if (dlopen == NULL || dlclose == NULL ||
        (library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE)) == NULL)
        return false;
#define NEEDS(name, parameters)                                                                    \
    cu.name = (int(*) parameters)(uintptr_t)real_symbol(library, #name);                           \
    all &= cu.name != NULL;
    DRIVER
#undef NEEDS
    dlclose(library); /* and it stays */
    found = all ? 1 : 2;
    return all;
}

/* Whether there is anything for us to do in this process. */
static bool wanted(void)
{
    return shim_known() && shim_own() && !atomic_load(&shim.ending);
}

static void *stream_of(const struct cuda_call *call)
{
    uintptr_t stream = call->stream == 3 ? call->fourth : call->fifth;

    if (stream == 0)
        stream = call->own_stream ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return (void *)stream;
}

/*
 * Whether the device reads host memory by its own or the host's page tables: it could look
 * at a page while it is exchanged for one of the ring's. Off until that was tried on hardware.
 */
static bool reaches_host(uint64_t memory)
{
    int ordinal = 0, number = 0, reaches = 0;

    return cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory) !=
               CUDA_SUCCESS ||
           cu.cuDeviceGet(&number, ordinal) != CUDA_SUCCESS ||
           cu.cuDeviceGetAttribute(&reaches, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, number) !=
               CUDA_SUCCESS ||
           reaches != 0;
}

/* Whether it copies from a device into memory that CUDA does not know. */
static bool redirectable(const struct cuda_call *call)
{
    unsigned type = 0, managed = 0;
    int status = -1;

    return cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, call->to) ==
               CUDA_ERROR_INVALID_VALUE &&
           cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    call->to + call->length - 1) == CUDA_ERROR_INVALID_VALUE &&
           cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, call->from) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE &&
           cu.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, call->from) ==
               CUDA_SUCCESS &&
           managed == 0 && !reaches_host(call->from) &&
           (call->stream == 0 || (cu.cuStreamIsCapturing(stream_of(call), &status) == 0 &&
                                  status == CU_STREAM_CAPTURE_STATUS_NONE)) &&
           promise_possible((void *)call->to, call->length);
}

/*
 * Waits until what is enqueued on the stream is done. 0, or CUDA's error. Not by an event, which
 * takes streams of its own device only; a copy takes any. In a mode that voids nobody's capture.
 */
static int wait_for(void *stream)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED, error;

    cu.cuThreadExchangeStreamCaptureMode(&mode);
    error = cu.cuStreamSynchronize(stream);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    return error;
}

static bool room(uintptr_t to, size_t length, struct portus_slot *slot)
{
    struct guard guard = shim_guard();
    bool taken = promise_room(&shim.writer, (void *)to, length, slot);

    shim_unguard(&guard);
    return taken;
}

/* The call, or a part of it, into the ring; in two where only the beginning is pinned. */
static int issue(const struct cuda_call *call, size_t done, const struct portus_slot *slot,
                 uint64_t pinned)
{
    uintptr_t to = (uintptr_t)shim.writer.data + slot->position;
    size_t first = slot->length;
    int error;

    if (slot->position < pinned && slot->position + slot->length > pinned)
        first = pinned - slot->position;
    error = call->real(to, call->from + done, first, call->fourth, call->fifth);
    if (first < slot->length && error == CUDA_SUCCESS)
        error = call->real(to + first, call->from + done + first, slot->length - first,
                           call->fourth, call->fifth);
    return error;
}

/* As if we were not there. */
static int plainly(const struct cuda_call *call)
{
    return call->real(call->to, call->from, call->length, call->fourth, call->fifth);
}

/* With the writer in use. */
static int redirect(const struct cuda_call *call)
{
    struct portus_slot slot[SLOTS];
    unsigned slots = 0;
    size_t done = 0, at = 0;
    uint64_t pinned;
    struct guard guard;
    int error = CUDA_SUCCESS, waited = CUDA_SUCCESS;
    unsigned type;

    if (!cuda_pin_begin(&pinned))
        return plainly(call);
    if (pinned != 0 && cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                (uintptr_t)shim.writer.data) != CUDA_SUCCESS) {
        cuda_pin_lost();
        pinned = 0;
    }

    while (done < call->length && slots < SLOTS && error == CUDA_SUCCESS) {
        if (!room(call->to + done, call->length - done, &slot[slots]))
            break;
        error = issue(call, done, &slot[slots], pinned);
        done += slot[slots++].length;
    }
    /* What has no room goes where it was to go. */
    if (done < call->length && error == CUDA_SUCCESS)
        error = call->real(call->to + done, call->from + done, call->length - done, call->fourth,
                           call->fifth);
    if (call->stream != 0 && slots > 0)
        waited = wait_for(stream_of(call));
    cuda_pin_end();

    guard = shim_guard();
    for (unsigned i = 0; i < slots; at += slot[i++].length)
        if (error == CUDA_SUCCESS && waited == CUDA_SUCCESS)
            promise_make(&shim.writer, (void *)(call->to + at), &slot[i], call->from + at);
        else if (waited == CUDA_SUCCESS) /* else a copy may still be under way: it is not reused */
            portus_slot_give(&shim.writer, &slot[i]);
    shim_unguard(&guard);
    return error != CUDA_SUCCESS ? error : waited;
}

static void pin(void)
{
    struct cuda_pin_driver functions = {cu.cuMemHostRegister_v2, cu.cuMemHostUnregister};
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (atomic_load(&shim.writer.session->unpin) != 0 && !files_saving())
        promise_rest(true);
    if (!cuda_pin_due())
        return;
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    cuda_pin_turn(&functions);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
}

static void noted(const struct cuda_call *call)
{
    struct guard guard = shim_guard();

    origin_copied((void *)call->to, call->from, call->length);
    shim_unguard(&guard);
}

int cuda_copy(const struct cuda_call *call)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED, error;
    bool can = false;

    if (inside || !wanted())
        return plainly(call);
    if (call->length >= LEAST)
        noted(call);
    if (!atomic_load(&shim.connected) || !driver() || !shim_use())
        return plainly(call);
    inside = true;
    if (call->length >= LEAST && (files_saving() || origin_saved(call->from, call->length))) {
        cu.cuThreadExchangeStreamCaptureMode(&mode);
        can = !atomic_load(&shim.writer.gone) && redirectable(call);
        cu.cuThreadExchangeStreamCaptureMode(&mode);
    }
    error = can ? redirect(call) : plainly(call);
    if (error == CUDA_SUCCESS)
        pin();
    inside = false;
    shim_done();
    return error;
}
