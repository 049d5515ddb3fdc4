/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c -- portus_copy and portus_copy_crc: the choice of a kind, the ends, the fence
 *
 * Not here: the inner loops (copy_avx2.c, copy_avx512.c), the sum alone (crc.c).
 *
 * Non-temporal stores are ordered with nothing: the sfence at the end makes them
 * visible before any later store, as copy.h promises.
 */
#include "common/copy.h"

#include <stdatomic.h>
#include <string.h>

#include "common/copy_kinds.h"

/* Below this, setting out costs more than the cache lines are worth. */
#define STREAM_LEAST (64u << 10)

/* A plain copy with the sum goes in steps that stay in the first level cache. */
#define PLAIN_STEP (16u << 10)

/* The inner loops of each kind; none: memcpy, in steps. */
static const struct {
    void (*copy)(unsigned char *destination, const unsigned char *source, size_t groups);
    uint32_t (*copy_sum)(unsigned char *destination, const unsigned char *source, size_t groups,
                         uint32_t sum);
} ways[] = {
    [PORTUS_COPY_PLAIN] = {NULL, NULL},
#if defined(__x86_64__)
    [PORTUS_COPY_AVX2] = {copy_groups_avx2, copy_groups_sum_avx2},
    [PORTUS_COPY_AVX512] = {copy_groups_avx512, copy_groups_sum_avx512},
#endif
};

int portus_copy_has(enum portus_copy_kind kind)
{
    switch (kind) {
    case PORTUS_COPY_BEST:
    case PORTUS_COPY_PLAIN:
        return 1;
#if defined(__x86_64__)
    /* The built-ins also know whether the kernel saves the registers. */
    case PORTUS_COPY_AVX2:
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") != 0;
    case PORTUS_COPY_AVX512:
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx512f") != 0;
#endif
    default:
        return 0;
    }
}

int copy_sum_has(enum portus_copy_kind kind)
{
    if (!portus_copy_has(kind))
        return 0;
#if defined(__x86_64__)
    if (kind == PORTUS_COPY_AVX2)
        return __builtin_cpu_supports("pclmul") != 0;
    if (kind == PORTUS_COPY_AVX512)
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq");
#endif
    return 1;
}

/* Threads that choose at the same time choose the same. */
static enum portus_copy_kind choose(atomic_int *chosen, int (*has)(enum portus_copy_kind kind))
{
    int kind = atomic_load_explicit(chosen, memory_order_relaxed);

    if (kind == PORTUS_COPY_BEST) {
        kind = PORTUS_COPY_AVX512;
        while (!has(kind))
            kind--;
        atomic_store_explicit(chosen, kind, memory_order_relaxed);
    }
    return kind;
}

enum portus_copy_kind copy_sum_best(void)
{
    static atomic_int chosen = PORTUS_COPY_BEST;

    return choose(&chosen, copy_sum_has);
}

static enum portus_copy_kind copy_best(void)
{
    static atomic_int chosen = PORTUS_COPY_BEST;

    return choose(&chosen, portus_copy_has);
}

/* Bytes before destination's next line; length if that is less. */
static size_t head_of(const unsigned char *destination, size_t length)
{
    size_t head = -(uintptr_t)destination % COPY_LINE;

    return head < length ? head : length;
}

static void fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

void portus_copy_by(enum portus_copy_kind kind, void *destination, const void *source,
                    size_t length)
{
    unsigned char *to = destination;
    const unsigned char *from = source;
    size_t done = 0;

    if (kind == PORTUS_COPY_BEST)
        kind = copy_best();
    if (portus_copy_has(kind) && ways[kind].copy != NULL) {
        size_t head = head_of(to, length), groups = (length - head) / COPY_GROUP;

        memcpy(to, from, head);
        ways[kind].copy(to + head, from + head, groups);
        fence();
        done = head + groups * COPY_GROUP;
    }
    memcpy(to + done, from + done, length - done);
}

uint32_t copy_crc_by(enum portus_copy_kind kind, void *destination, const void *source,
                     size_t length, uint32_t crc)
{
    unsigned char *to = destination;
    const unsigned char *from = source;
    uint32_t sum = ~crc;
    size_t done = 0;

    if (kind == PORTUS_COPY_BEST)
        kind = copy_sum_best();
    if (!copy_sum_has(kind))
        kind = PORTUS_COPY_PLAIN;
    if (ways[kind].copy_sum != NULL) {
        size_t head = head_of(to, length), groups = (length - head) / COPY_GROUP;

        memcpy(to, from, head);
        sum = crc_sum_by(kind, sum, from, head);
        sum = ways[kind].copy_sum(to + head, from + head, groups, sum);
        fence();
        done = head + groups * COPY_GROUP;
    }
    while (done < length) {
        size_t step = length - done < PLAIN_STEP ? length - done : PLAIN_STEP;

        memcpy(to + done, from + done, step);
        sum = crc_sum_by(kind, sum, from + done, step);
        done += step;
    }
    return ~sum;
}

void portus_copy(void *destination, const void *source, size_t length)
{
    if (length < STREAM_LEAST)
        memcpy(destination, source, length);
    else
        portus_copy_by(copy_best(), destination, source, length);
}

uint32_t portus_copy_crc(void *destination, const void *source, size_t length, uint32_t crc)
{
    if (length < STREAM_LEAST) {
        memcpy(destination, source, length);
        return portus_crc32(crc, source, length);
    }
    return copy_crc_by(copy_sum_best(), destination, source, length, crc);
}
