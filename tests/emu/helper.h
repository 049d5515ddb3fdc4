/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper.h -- what the emulator's test programs share
 */
#ifndef EMU_HELPER_H
#define EMU_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define fails(error, call) assert_int_equal((call), (error))

#include "kernels.h"

static inline void *pinned_memory(size_t size)
{
    void *memory;

    ok(cuMemHostAlloc(&memory, size, 0));
    return memory;
}

static inline CUstream stream_new(unsigned flags)
{
    CUstream stream;

    ok(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUevent event_new(void)
{
    CUevent event;

    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* The primary context of a device, made current. */
static inline CUcontext context_of(CUdevice device)
{
    CUcontext context;

    ok(cuDevicePrimaryCtxRetain(&context, device));
    ok(cuCtxSetCurrent(context));
    return context;
}

static inline int setup(void **state)
{
    alarm(60);
    ok(cuInit(0));
    context_of(0);
    return 0;
}

/* What a child that runs it ends with: its exit status, or minus its signal. */
static inline int in_child(int (*function)(void *), void *argument)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child)
        _exit(function(argument));
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
