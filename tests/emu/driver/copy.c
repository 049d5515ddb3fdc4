/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c -- copies and fills, in streams
 *
 * A copy is done by its stream's thread, piece by piece, so that one can be seen half done.
 * Addresses are looked up again when it is done: what was freed meanwhile is an illegal address. As
 * with the real driver a copy that touches pageable memory keeps its caller: to it, until it is
 * done; from it, until the source has been read (up to 64 KiB: into a buffer); between two of them
 * altogether.
 */
#include <string.h>

#include "emu.h"

#define STAGED ((size_t)64 << 10)
#define PIECE ((size_t)256 << 10)

struct rectangle {
    uintptr_t to, from;
    size_t to_pitch, from_pitch, width, height;
    enum range_kind to_kind, from_kind; /* what it must be; PAGEABLE: any */
};

struct copy {
    struct work work;
    struct rectangle r;
    char *staged; /* what the source held, or NULL */
};

struct fill {
    struct work work;
    uintptr_t to;
    size_t pitch, width, height; /* width in elements */
    unsigned element, value;
};

/* EMU_BANDWIDTH bytes a second, if it is set. */
static void take_time(size_t size)
{
    static uint64_t bandwidth = UINT64_MAX;

    if (bandwidth == UINT64_MAX)
        bandwidth = emu_setting("EMU_BANDWIDTH", 0);
    if (bandwidth)
        emu_sleep((uint64_t)((double)size * 1e9 / (double)bandwidth));
}

static size_t extent(size_t pitch, size_t width, size_t height)
{
    return height ? pitch * (height - 1) + width : 0;
}

static char *reach_to(const struct rectangle *r)
{
    return emu_reach(NULL, r->to, extent(r->to_pitch, r->width, r->height));
}

static char *reach_from(const struct rectangle *r)
{
    return emu_reach(NULL, r->from, extent(r->from_pitch, r->width, r->height));
}

static enum range_kind kind_of(uintptr_t address)
{
    struct range *range = emu_range_find(address);

    return range ? range->kind : PAGEABLE;
}

static struct pin *pin_of(uintptr_t address)
{
    struct range *range = emu_range_find(address);

    return range ? range->pin : NULL;
}

/* At most a piece. */
static bool move(char *to, struct pin *to_pin, char *from, struct pin *from_pin, size_t size)
{
    char between[PIECE];

    if (from_pin) {
        if (!emu_pin_copy(from_pin, (uintptr_t)from, to_pin ? between : to, size, false))
            return false;
        from = between;
    }
    if (to_pin)
        return emu_pin_copy(to_pin, (uintptr_t)to, from, size, true);
    if (!from_pin)
        memmove(to, from, size);
    return true;
}

static CUresult copy_rows(const struct rectangle *r, char *to, struct pin *to_pin, char *from,
                          struct pin *from_pin)
{
    for (size_t row = 0; row < r->height; row++) {
        for (size_t at = 0; at < r->width; at += PIECE) {
            size_t size = r->width - at < PIECE ? r->width - at : PIECE;

            take_time(size);
            if (!move(to + row * r->to_pitch + at, to_pin, from + row * r->from_pitch + at,
                      from_pin, size))
                return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult copy(struct work *work)
{
    const struct rectangle *r = &((struct copy *)work)->r;
    char *to, *from = ((struct copy *)work)->staged;
    struct pin *to_pin, *from_pin = NULL;
    CUresult error;

    pthread_mutex_lock(&emu_lock);
    to = reach_to(r);
    to_pin = pin_of(r->to);
    if (!from) {
        from = reach_from(r);
        from_pin = pin_of(r->from);
    }
    emu_pin_use(to_pin);
    emu_pin_use(from_pin);
    pthread_mutex_unlock(&emu_lock);
    error = to && from ? copy_rows(r, to, to_pin, from, from_pin) : CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_lock(&emu_lock);
    emu_pin_leave(to_pin);
    emu_pin_leave(from_pin);
    pthread_mutex_unlock(&emu_lock);
    return error;
}

static void copy_end(struct work *work)
{
    free(((struct copy *)work)->staged);
}

/* What the program asks for: where the caller may go on. */
enum when { AFTER_QUEUEING, AFTER_COPYING };

static bool fits(enum range_kind wanted, enum range_kind found)
{
    return wanted != DEVICE || found == DEVICE || found == MANAGED || found == HOST_ALLOCATED ||
           found == HOST_REGISTERED;
}

static CUresult submit(CUstream handle, const struct rectangle *r, enum when when)
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);
    enum range_kind to_kind, from_kind;
    size_t size = r->width * r->height;
    struct copy *made;
    uint64_t number;
    char *from;

    if (error)
        return error;
    if (when == AFTER_COPYING)
        error = emu_unsafe();
    if (error || !size)
        return emu_leave(error);
    if (!r->to || !r->from || r->to_pitch < r->width || r->from_pitch < r->width)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    from = reach_from(r);
    to_kind = kind_of(r->to);
    from_kind = kind_of(r->from);
    if (!from || !reach_to(r) || !fits(r->to_kind, to_kind) || !fits(r->from_kind, from_kind))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = emu_work(sizeof(*made), copy);
    if (!made)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->work.end = copy_end;
    made->r = *r;
    if (to_kind == PAGEABLE) {
        when = AFTER_COPYING;
    } else if (from_kind == PAGEABLE && !stream->capture) {
        if (size <= STAGED && r->height == 1)
            made->staged = malloc(size);
        if (made->staged)
            memcpy(made->staged, from, size);
        else
            when = AFTER_COPYING;
    }
    if (to_kind != DEVICE && from_kind == DEVICE) {
        emu_counts.copies++;
        *(to_kind == PAGEABLE ? &emu_counts.pageable : &emu_counts.pinned) += size;
    }
    error = emu_submit(stream, (struct work *)made, &number);
    if (!error && when == AFTER_COPYING) {
        emu_await(stream, number);
        error = stream->context->error;
    }
    return emu_leave(error);
}

static CUresult line(CUstream stream, uintptr_t to, enum range_kind to_kind, uintptr_t from,
                     enum range_kind from_kind, size_t size, enum when when)
{
    struct rectangle r = {to, from, size, size, size, 1, to_kind, from_kind};

    return submit(stream, &r, when);
}

/* ---- entry points ---- */

static CUresult cuMemcpyDtoHAsync_v2_on(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    return line(stream, (uintptr_t)to, PAGEABLE, (uintptr_t)from, DEVICE, size, AFTER_QUEUEING);
}
STREAMED(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream),
         (to, from, size, stream))

static CUresult cuMemcpyHtoDAsync_v2_on(CUdeviceptr to, const void *from, size_t size,
                                        CUstream stream)
{
    return line(stream, (uintptr_t)to, DEVICE, (uintptr_t)from, PAGEABLE, size, AFTER_QUEUEING);
}
STREAMED(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream),
         (to, from, size, stream))

static CUresult cuMemcpyDtoDAsync_v2_on(CUdeviceptr to, CUdeviceptr from, size_t size,
                                        CUstream stream)
{
    return line(stream, (uintptr_t)to, DEVICE, (uintptr_t)from, DEVICE, size, AFTER_QUEUEING);
}
STREAMED(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
         (to, from, size, stream))

static CUresult cuMemcpyAsync_on(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return line(stream, (uintptr_t)to, PAGEABLE, (uintptr_t)from, PAGEABLE, size, AFTER_QUEUEING);
}
STREAMED(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
         (to, from, size, stream))

static CUresult cuMemcpyPeerAsync_on(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                     CUcontext from_context, size_t size, CUstream stream)
{
    return line(stream, (uintptr_t)to, DEVICE, (uintptr_t)from, DEVICE, size, AFTER_QUEUEING);
}
STREAMED(cuMemcpyPeerAsync,
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
          size_t size, CUstream stream),
         (to, to_context, from, from_context, size, stream))

/* The synchronous forms use the default stream of their kind. */
#define BOTH(name, parameters, call_on)                                                            \
    API name parameters                                                                            \
    {                                                                                              \
        CUstream stream = CU_STREAM_LEGACY;                                                        \
        return call_on;                                                                            \
    }                                                                                              \
    API name##_ptds parameters                                                                     \
    {                                                                                              \
        CUstream stream = CU_STREAM_PER_THREAD;                                                    \
        return call_on;                                                                            \
    }

BOTH(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size),
     line(stream, (uintptr_t)to, PAGEABLE, (uintptr_t)from, DEVICE, size, AFTER_COPYING))
BOTH(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size),
     line(stream, (uintptr_t)to, DEVICE, (uintptr_t)from, PAGEABLE, size, AFTER_COPYING))
BOTH(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size),
     line(stream, (uintptr_t)to, DEVICE, (uintptr_t)from, DEVICE, size, AFTER_QUEUEING))
BOTH(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size),
     line(stream, (uintptr_t)to, PAGEABLE, (uintptr_t)from, PAGEABLE, size, AFTER_COPYING))
BOTH(cuMemcpyPeer,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size),
     line(stream, (uintptr_t)to, DEVICE, (uintptr_t)from, DEVICE, size, AFTER_QUEUEING))

/* ---- rectangles ---- */

static CUresult flat(const CUDA_MEMCPY2D *c, struct rectangle *r)
{
    if (!c || c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return c ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    *r = (struct rectangle){
        .to_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes,
        .from_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes,
        .width = c->WidthInBytes,
        .height = c->Height,
        .to_kind = c->dstMemoryType == CU_MEMORYTYPE_DEVICE ? DEVICE : PAGEABLE,
        .from_kind = c->srcMemoryType == CU_MEMORYTYPE_DEVICE ? DEVICE : PAGEABLE,
        .to = c->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->dstHost
                                                     : (uintptr_t)c->dstDevice,
        .from = c->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->srcHost
                                                       : (uintptr_t)c->srcDevice,
    };
    r->to += c->dstXInBytes + c->dstY * r->to_pitch;
    r->from += c->srcXInBytes + c->srcY * r->from_pitch;
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, enum when when)
{
    struct rectangle r;
    CUresult error = flat(c, &r);

    return error ? error : submit(stream, &r, when);
}

static CUresult cuMemcpy2DAsync_v2_on(const CUDA_MEMCPY2D *c, CUstream stream)
{
    return copy_2d(c, stream, AFTER_QUEUEING);
}
STREAMED(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c, CUstream stream), (c, stream))
BOTH(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *c), copy_2d(c, stream, AFTER_COPYING))
BOTH(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *c), copy_2d(c, stream, AFTER_COPYING))

/* ---- boxes: a rectangle after the other ---- */

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, enum when when)
{
    CUresult error = c && !c->srcLOD && !c->dstLOD ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (size_t z = 0; !error && z < c->Depth; z++) {
        CUDA_MEMCPY2D slice = {
            .srcXInBytes = c->srcXInBytes,
            .srcY = c->srcY + (c->srcZ + z) * (c->srcHeight ? c->srcHeight : c->Height),
            .srcMemoryType = c->srcMemoryType,
            .srcHost = c->srcHost,
            .srcDevice = c->srcDevice,
            .srcPitch = c->srcPitch,
            .dstXInBytes = c->dstXInBytes,
            .dstY = c->dstY + (c->dstZ + z) * (c->dstHeight ? c->dstHeight : c->Height),
            .dstMemoryType = c->dstMemoryType,
            .dstHost = c->dstHost,
            .dstDevice = c->dstDevice,
            .dstPitch = c->dstPitch,
            .WidthInBytes = c->WidthInBytes,
            .Height = c->Height,
        };
        error = copy_2d(&slice, stream, when);
    }
    return error;
}

static CUresult cuMemcpy3DAsync_v2_on(const CUDA_MEMCPY3D *c, CUstream stream)
{
    return copy_3d(c, stream, AFTER_QUEUEING);
}
STREAMED(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *c, CUstream stream), (c, stream))
BOTH(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *c), copy_3d(c, stream, AFTER_COPYING))

/* ---- batches: one call, in any order among themselves; here in the order of their numbers ---- */

static CUresult cuMemcpyBatchAsync_on(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                      size_t count, CUmemcpyAttributes *attributes, size_t *indices,
                                      size_t attributes_count, size_t *failed, CUstream stream)
{
    CUresult error = CUDA_SUCCESS;

    if (!to || !from || !sizes || !count || !attributes || !indices || !attributes_count ||
        indices[0] != 0 || !stream || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE; /* the legacy stream is not allowed */
    for (size_t i = 0; i < count && !error; i++) {
        if (failed)
            *failed = i;
        error = line(stream, (uintptr_t)to[i], PAGEABLE, (uintptr_t)from[i], PAGEABLE, sizes[i],
                     AFTER_QUEUEING);
    }
    return error;
}

STREAMED(cuMemcpyBatchAsync,
         (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
          CUmemcpyAttributes *attributes, size_t *indices, size_t attributes_count, size_t *failed,
          CUstream stream),
         (to, from, sizes, count, attributes, indices, attributes_count, failed, stream))

static CUresult cuMemcpyBatchAsync_v2_on(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                         size_t count, CUmemcpyAttributes *attributes,
                                         size_t *indices, size_t attributes_count, CUstream stream)
{
    return cuMemcpyBatchAsync_on(to, from, sizes, count, attributes, indices, attributes_count,
                                 NULL, stream);
}
STREAMED(cuMemcpyBatchAsync_v2,
         (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
          CUmemcpyAttributes *attributes, size_t *indices, size_t attributes_count,
          CUstream stream),
         (to, from, sizes, count, attributes, indices, attributes_count, stream))

/* ---- fills ---- */

static CUresult fill(struct work *work)
{
    struct fill *fill = (struct fill *)work;
    size_t bytes = extent(fill->pitch, fill->width * fill->element, fill->height);
    char *to = emu_reach_at_work(work->context, fill->to, bytes);

    if (!to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t row = 0; row < fill->height; row++) {
        char *at = to + row * fill->pitch;

        if (fill->element == 1)
            memset(at, (int)fill->value, fill->width);
        for (size_t i = 0; fill->element == 2 && i < fill->width; i++)
            ((uint16_t *)at)[i] = (uint16_t)fill->value;
        for (size_t i = 0; fill->element == 4 && i < fill->width; i++)
            ((uint32_t *)at)[i] = fill->value;
    }
    return CUDA_SUCCESS;
}

static CUresult submit_fill(CUstream handle, CUdeviceptr to, size_t pitch, unsigned element,
                            unsigned value, size_t width, size_t height)
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);
    struct fill *made;

    if (error)
        return error;
    if (!width || !height)
        return emu_leave(CUDA_SUCCESS);
    if (!pitch || height == 1)
        pitch = width * element;
    if (to % element || pitch < width * element ||
        !emu_reach(emu_current(), (uintptr_t)to, extent(pitch, width * element, height)))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = emu_work(sizeof(*made), fill);
    if (made) {
        made->to = (uintptr_t)to;
        made->pitch = pitch;
        made->width = width;
        made->height = height;
        made->element = element;
        made->value = value;
    }
    return emu_leave(emu_submit(stream, (struct work *)made, NULL));
}

#define FILL(bits, type)                                                                           \
    BOTH(cuMemsetD##bits##_v2, (CUdeviceptr to, type value, size_t count),                         \
         submit_fill(stream, to, 0, bits / 8, value, count, 1))                                    \
    static CUresult cuMemsetD##bits##Async_on(CUdeviceptr to, type value, size_t count,            \
                                              CUstream stream)                                     \
    {                                                                                              \
        return submit_fill(stream, to, 0, bits / 8, value, count, 1);                              \
    }                                                                                              \
    STREAMED(cuMemsetD##bits##Async, (CUdeviceptr to, type value, size_t count, CUstream stream),  \
             (to, value, count, stream))                                                           \
    BOTH(cuMemsetD2D##bits##_v2,                                                                   \
         (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),                  \
         submit_fill(stream, to, pitch, bits / 8, value, width, height))                           \
    static CUresult cuMemsetD2D##bits##Async_on(CUdeviceptr to, size_t pitch, type value,          \
                                                size_t width, size_t height, CUstream stream)      \
    {                                                                                              \
        return submit_fill(stream, to, pitch, bits / 8, value, width, height);                     \
    }                                                                                              \
    STREAMED(                                                                                      \
        cuMemsetD2D##bits##Async,                                                                  \
        (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),  \
        (to, pitch, value, width, height, stream))

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
