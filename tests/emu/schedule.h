/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.h -- what a schedule works on: memory of the device and of the host, each with its model
 *
 * Not here: what is done with it, and the files. See schedule.c.
 */
#ifndef EMU_SCHEDULE_H
#define EMU_SCHEDULE_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "kernels_ptx.h"

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define MOST (MIB + MIB / 2 + 5000)
#define STREAMS 5
#define BUFFERS 3
#define HOSTS 4
#define PINNED 2

struct memory {
    CUdeviceptr device; /* or 0 */
    char *host;         /* or NULL */
    size_t size;
    char *model;
    CUstream owner; /* whose works touched it last */
    bool mapped;    /* by mmap, not by malloc */
    bool parted;    /* a part was mapped anew: to the kernel it may be two mappings */
};

struct replay {
    CUgraphExec exec; /* or NULL */
    struct memory *from, *to;
    size_t size;
};

struct life {
    uint64_t seed, random;
    unsigned thread, step, files;
    CUstream stream[STREAMS];
    CUevent event;
    struct memory buffer[BUFFERS], host[HOSTS], pinned[PINNED];
    struct replay replay;
    int file;
    char name[64], *model; /* of the file */
    size_t size, at;
    pid_t child;
};

static CUfunction stamp_function, add_function, spin_function;
static bool verbose;

#define must(condition) ((condition) ? (void)0 : wrong(life, #condition, __LINE__))
#define ok(call) must((call) == CUDA_SUCCESS)

__attribute__((noreturn)) static inline void wrong(const struct life *life, const char *what,
                                                   int line)
{
    fprintf(stderr, "schedule %llu, thread %u, step %u: not so: %s (line %d, %s)\n",
            (unsigned long long)life->seed, life->thread, life->step, what, line, strerror(errno));
    _exit(1);
}

static inline uint64_t next(struct life *life)
{
    life->random ^= life->random << 13;
    life->random ^= life->random >> 7;
    life->random ^= life->random << 17;
    return life->random * 0x2545f4914f6cdd1du >> 16;
}

static inline size_t below(struct life *life, size_t limit)
{
    return next(life) % limit;
}

/* Sizes that are worth a redirection mostly, at any alignment. */
static inline size_t some_size(struct life *life, size_t most)
{
    size_t size = below(life, 4) ? MIB + below(life, MIB / 2 + 5000) : 1 + below(life, 20000);

    return size < most ? size : most;
}

static inline void tell(const struct life *life, const char *what, size_t a, size_t b)
{
    if (verbose)
        fprintf(stderr, "%llu/%u %u: %s %zu %zu\n", (unsigned long long)life->seed, life->thread,
                life->step, what, a, b);
}

/* ---- order ---- */

/* The stream's works from now on come behind all that was queued for the memory. */
static inline void use(struct life *life, struct memory *memory, CUstream stream)
{
    if (memory->owner == stream)
        return;
    ok(cuEventRecord(life->event, memory->owner));
    ok(cuStreamWaitEvent(stream, life->event, 0));
    memory->owner = stream;
}

static inline CUstream some_stream(struct life *life)
{
    return life->stream[below(life, STREAMS)];
}

/* ---- the things ---- */

static inline void launch(struct life *life, CUfunction function, CUstream stream, void *a, void *b,
                          void *c)
{
    void *arguments[] = {a, b, c};

    ok(cuLaunchKernel(function, KERNEL_BLOCKS, 1, 1, KERNEL_THREADS, 1, 1, 0, stream, arguments,
                      NULL));
}

static inline void stamp(struct life *life, struct memory *m, size_t at, size_t size,
                         CUstream stream)
{
    uint32_t seed = (uint32_t)next(life), *words = (uint32_t *)(m->model + at / 4 * 4);
    CUdeviceptr to = m->device + at / 4 * 4;
    uint64_t count = size / 4;

    use(life, m, stream);
    launch(life, stamp_function, stream, &to, &count, &seed);
    for (uint64_t i = 0; i < count; i++)
        words[i] = seed + (uint32_t)i * 2654435761u;
}

static inline void buffer_begin(struct life *life, struct memory *m)
{
    bool pool = below(life, 3) == 0;
    CUstream stream = some_stream(life);

    m->size = MOST;
    if (pool)
        ok(cuMemAllocAsync(&m->device, m->size, stream));
    else
        ok(cuMemAlloc_v2(&m->device, m->size));
    m->mapped = pool;
    m->owner = stream;
    stamp(life, m, 0, m->size, stream);
}

static inline void replay_end(struct life *life)
{
    if (life->replay.exec)
        ok(cuGraphExecDestroy(life->replay.exec));
    life->replay.exec = NULL;
}

static inline void buffer_end(struct life *life, struct memory *m)
{
    if (life->replay.from == m)
        replay_end(life);
    if (m->mapped && below(life, 2))
        ok(cuMemFreeAsync(m->device, m->owner));
    else
        ok(cuMemFree_v2(m->device));
    m->device = 0;
}

static inline void host_begin(struct life *life, struct memory *m)
{
    m->size = some_size(life, MOST);
    m->mapped = below(life, 2);
    m->parted = false;
    if (m->mapped)
        m->host = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        m->host = malloc(m->size);
    must(m->host && m->host != MAP_FAILED);
    if (!m->mapped)
        memset(m->host, 0, m->size);
    memset(m->model, 0, m->size);
}

static inline void host_end(struct life *life, struct memory *m)
{
    if (m->mapped)
        must(munmap(m->host, m->size) == 0);
    else
        free(m->host);
    m->host = NULL;
}

static inline void check_hosts(struct life *life)
{
    for (int i = 0; i < HOSTS; i++)
        must(!memcmp(life->host[i].host, life->host[i].model, life->host[i].size));
}

#endif
