/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * value.c -- words in memory that streams write and wait for
 */
#include <unistd.h>

#include "emu.h"

enum { GEQ, EQ, AND, NOR }; /* what to wait for */

struct value {
    struct work work;
    uintptr_t address;
    uint64_t value;
    unsigned size, flags;
};

static CUresult write_value(struct work *work)
{
    struct value *value = (struct value *)work;
    void *access = emu_reach_at_work(work->context, value->address, value->size);

    if (!access)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (value->size == 4)
        *(volatile uint32_t *)access = (uint32_t)value->value;
    else
        *(volatile uint64_t *)access = value->value;
    return CUDA_SUCCESS;
}

static bool there(const struct value *value, const void *access)
{
    uint64_t mask = value->size == 4 ? UINT32_MAX : UINT64_MAX;
    uint64_t is =
        value->size == 4 ? *(const volatile uint32_t *)access : *(const volatile uint64_t *)access;

    switch (value->flags & 3) {
    case GEQ: /* in the sense of a counter that wraps */
        return value->size == 4 ? (int32_t)((uint32_t)is - (uint32_t)value->value) >= 0
                                : (int64_t)(is - value->value) >= 0;
    case EQ:
        return is == value->value;
    case AND:
        return (is & value->value) != 0;
    }
    return (~(is | value->value) & mask) != 0;
}

static CUresult wait_value(struct work *work)
{
    struct value *value = (struct value *)work;
    void *access = emu_reach_at_work(work->context, value->address, value->size);

    if (!access)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    while (!there(value, access) && !work->context->destroyed)
        usleep(50);
    return CUDA_SUCCESS;
}

static CUresult submit(CUstream handle, CUdeviceptr address, uint64_t number, unsigned size,
                       unsigned flags, CUresult (*run)(struct work *))
{
    CUstream stream;
    CUresult error = emu_enter_stream(handle, CUDA_SUCCESS, &stream);
    struct value *made;

    if (error)
        return error;
    if (address % size || !emu_reach(emu_current(), (uintptr_t)address, size))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = emu_work(sizeof(*made), run);
    if (made) {
        made->address = (uintptr_t)address;
        made->value = number;
        made->size = size;
        made->flags = flags;
    }
    return emu_leave(emu_submit(stream, (struct work *)made, NULL));
}

#define VALUE(name, bits, run)                                                                     \
    static CUresult name##bits##_v2_on(CUstream stream, CUdeviceptr address,                       \
                                       cuuint##bits##_t value, unsigned flags)                     \
    {                                                                                              \
        return submit(stream, address, value, bits / 8, flags, run);                               \
    }                                                                                              \
    STREAMED(name##bits##_v2,                                                                      \
             (CUstream stream, CUdeviceptr address, cuuint##bits##_t value, unsigned flags),       \
             (stream, address, value, flags))

VALUE(cuStreamWriteValue, 32, write_value)
VALUE(cuStreamWriteValue, 64, write_value)
VALUE(cuStreamWaitValue, 32, wait_value)
VALUE(cuStreamWaitValue, 64, wait_value)
