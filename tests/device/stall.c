/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall.c -- how long a save of a device's memory keeps a program, in seconds per GiB
 *
 *     stall MEBIBYTES ROUNDS
 *
 * For scripts/device-check, which runs it plainly and with the shim. It prints an object of JSON:
 * medians of what one copy into pageable memory that is there takes, one into such as .cpu() has it
 * (new), one into pinned memory, and of a save: of its copies, its writes, all of it. All before
 * the save itself is as it is without the shim in both runs.
 */
#include <time.h>

#include "../shim/helper.h"

#define ok(call) check((call) == CUDA_SUCCESS)

#include "../emu/api.h"
#include "../emu/kernels.h"

enum { PIECE = 64 * MIB, ROUNDS = 32 };

static size_t size;
static unsigned rounds;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void tell(const char *name, double *seconds, const char *after)
{
    qsort(seconds, rounds, sizeof(*seconds), by_size);
    printf("\"%s\": %.4f%s", name, seconds[rounds / 2] * 1024 * MIB / (double)size, after);
}

static void copies(const char *name, CUdeviceptr from, char *to)
{
    double took[ROUNDS];

    for (unsigned i = 0; i < rounds; i++) {
        char *memory = to != NULL ? to : malloc(size);
        double began = now();

        check(memory != NULL);
        ok(cuMemcpyDtoH_v2(memory, from, size));
        took[i] = now() - began;
        if (to == NULL)
            free(memory);
    }
    tell(name, took, ", ");
}

/* A save in pieces, as torch.save has them; the first one is not counted: the ring grows then. */
static void saves(CUdeviceptr from)
{
    double copying[ROUNDS + 1], writing[ROUNDS + 1], all[ROUNDS + 1];

    for (unsigned i = 0; i <= rounds; i++) {
        char name[32];
        double began, at;
        int fd;

        snprintf(name, sizeof(name), "stall-%u.ckpt", i);
        copying[i] = writing[i] = 0;
        began = now();
        fd = create(name);
        put(fd, name, sizeof(name));
        for (size_t done = 0; done < size; done += PIECE) {
            size_t part = size - done < PIECE ? size - done : PIECE;
            char *host = malloc(part);

            check(host != NULL);
            at = now();
            ok(cuMemcpyDtoH_v2(host, from + done, part));
            copying[i] += now() - at;
            at = now();
            put(fd, host, part);
            writing[i] += now() - at;
            free(host);
        }
        check(close(fd) == 0);
        all[i] = now() - began;
        close(must(open(name, O_RDONLY))); /* returns when it is whole */
        sync();
        if (i > 0)
            unlink(name);
        usleep(300000);
        ok(cuMemcpyDtoH_v2(name, from, 8)); /* as a training step does; the shim pins its ring */
    }
    tell("save_copies", copying + 1, ", ");
    tell("save_writes", writing + 1, ", ");
    tell("save", all + 1, "");
}

int main(int count, char **arguments)
{
    CUcontext context;
    CUdeviceptr from;
    void *pinned;
    char *host;

    check(count == 3);
    size = (size_t)atoi(arguments[1]) * MIB;
    rounds = (unsigned)atoi(arguments[2]);
    check(size > 0 && rounds > 0 && rounds <= ROUNDS);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    from = device_memory(size);
    stamp(from, size, 1, NULL);
    host = malloc(size);
    check(host != NULL);
    memset(host, 1, size);
    ok(cuMemHostAlloc(&pinned, size, 0));
    printf("{");
    copies("pageable_copy", from, host);
    copies("new_pageable_copy", from, NULL);
    copies("pinned_copy", from, pinned);
    free(host);
    ok(cuMemFreeHost(pinned));
    saves(from);
    printf("}\n");
    return 0;
}
