/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_calls.c -- each function of cuda_hooks.def, by its symbol and by the pointers that others give
 * run: captures=2 referred=40 modes=default,all,copied
 *
 *     cuda_calls [NAME]    all of them, or one by its symbol alone
 *
 * Right: each copy has what the device had at its place in its stream, also over an older promise.
 */
#include <dlfcn.h>
#include <stdbool.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

enum library { DRIVER, RUNTIME };

typedef int call_function(uintptr_t to, uintptr_t from, size_t size, uintptr_t fourth, uintptr_t fifth);
typedef CUresult ask(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Signatures are not needed: with other registers than it has arguments a call does no harm. */
#define CUDA_COPY(name, library, base, own, stream, text) call_function here_##name __asm__(#name);
#define CUDA_PINS(name, library, base, text) call_function here_##name __asm__(#name);
#include "../../preload/cuda_hooks.def"
#undef CUDA_COPY
#undef CUDA_PINS

static const struct line {
    const char *name, *base;
    call_function *here;
    enum library library;
    unsigned stream; /* number of the argument */
    bool own, pins;
} lines[] = {
#define CUDA_COPY(name, library, base, own, stream, text) {#name, base, here_##name, library, stream, own, false},
#define CUDA_PINS(name, library, base, text) {#name, base, here_##name, library, 0, false, true},
#include "../../preload/cuda_hooks.def"
};

static void *driver;
static CUdeviceptr from;
static CUstream stream;
static char *to;
static int fd;
static uint32_t seed;

static void copy_by(const struct line *line, call_function *function)
{
    uintptr_t kind = line->library == RUNTIME ? 2 : 0; /* from the device to the host */

    for (unsigned i = 0; i < 2; i++) { /* on a default stream, and on one of ours */
        CUstream used = i == 0 || line->stream == 0 ? (line->own ? CU_STREAM_PER_THREAD : NULL) : stream;
        uintptr_t given = i == 0 || line->stream == 0 ? 0 : (uintptr_t)stream;

        spin(1, used);
        stamp(from, SIZE, ++seed, used);
        check(function((uintptr_t)to, from, SIZE, line->stream == 3 ? given : kind, given) == 0);
        stamp(from, SIZE, 1000000, used);
        check(stamped(to, SIZE, seed));
        put(fd, to, SIZE);
        ok(cuStreamSynchronize(used));
    }
}

static void pin_by(call_function *function)
{
    copy(to, SIZE, ++seed);
    check(function((uintptr_t)to, SIZE, 0, 0, 0) == 0);
    check(stamped(to, SIZE, seed));
    copy(to, SIZE, ++seed);
    check(stamped(to, SIZE, seed));
    put(fd, to, SIZE);
    ok(cuMemHostUnregister(to));
}

static void by(const struct line *line, void *function)
{
    check(function != NULL);
    if (line->pins)
        pin_by((call_function *)(uintptr_t)function);
    else
        copy_by(line, (call_function *)(uintptr_t)function);
}

static void *asked(const struct line *line)
{
    ask *get = (ask *)(uintptr_t)dlsym(driver, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult found;
    void *function = NULL;

    check(get != NULL);
    check(get(line->base, &function, 12000, line->own ? 2 : 1, &found) == CUDA_SUCCESS);
    return function;
}

int main(int count, char **arguments)
{
    begin();
    driver = dlopen("libcuda.so.1", RTLD_LAZY);
    check(driver != NULL);
    from = device_memory(SIZE);
    ok(cuStreamCreate(&stream, 1)); /* not blocking: the legacy stream does not order it */
    to = (char *)anonymous(SIZE + 4096) + 100;
    fd = create("a.ckpt");
    for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const struct line *line = &lines[i];

        if (count > 1 && strcmp(arguments[1], line->name) != 0)
            continue;
        alarm(5);
        printf("%s\n", line->name);
        by(line, (void *)(uintptr_t)line->here);
        if (count > 1)
            continue;
        by(line, dlsym(line->library == DRIVER ? driver : RTLD_DEFAULT, line->name));
        if (line->base[0] != '\0')
            by(line, asked(line));
    }
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
