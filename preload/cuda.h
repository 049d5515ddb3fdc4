/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.h -- copies out of a device's memory, made into the ring
 */
#ifndef PORTUS_PRELOAD_CUDA_H
#define PORTUS_PRELOAD_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A copying call of CUDA's, as it was made: with other registers than it has arguments, which
 * does no harm on the supported machines. It returns a CUresult or a cudaError_t.
 */
typedef int cuda_function(uintptr_t to, uintptr_t from, size_t length, uintptr_t fourth,
                          uintptr_t fifth);

struct cuda_call {
    cuda_function *real;
    uintptr_t to, from;
    size_t length;
    uintptr_t fourth, fifth;
    unsigned stream; /* number of the argument, from 0; 0: none */
    bool own_stream; /* stream 0 is the thread's own */
};

/* Makes the call; into the ring if it is one of a save. Returns what it returns. */
int cuda_copy(const struct cuda_call *call);

#endif
