/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel.c -- modules, functions, launches: a kernel is what its name says
 *
 *   stamp  (u32 *to, u64 count, u32 seed)        to[i] = seed + i * 2654435761
 *   add    (u32 *to, const u32 *from, u64 count) to[i] += from[i]
 *   spin   (u64 nanoseconds)                     takes that long
 *   hold   (const volatile u32 *flag, u32 value) ends when *flag is value
 *   fault  ()                                    touches what it may not
 *
 * All others do nothing. Any image is a module that has every function. The grid is not looked at.
 */
#include <string.h>
#include <unistd.h>

#include "emu.h"

struct CUmod_st {
    struct CUfunc_st *functions;
};

struct CUfunc_st {
    struct CUfunc_st *next;
    const struct kernel *kernel; /* NULL: does nothing */
    char name[];
};

union argument {
    uint64_t address, count, nanoseconds;
    uint32_t value;
};

struct launch {
    struct work work;
    const struct kernel *kernel;
    union argument arguments[3];
};

struct kernel {
    const char *name;
    const char *kinds; /* of its arguments: q of 8 bytes, d of 4 */
    CUresult (*run)(CUcontext context, const union argument *arguments);
};

static void *reach(CUcontext context, uint64_t address, uint64_t count, size_t element)
{
    if (address % element || count > SIZE_MAX / element)
        return NULL;
    return emu_reach_at_work(context, address, count * element);
}

static CUresult stamp(CUcontext context, const union argument *a)
{
    uint32_t *to = reach(context, a[0].address, a[1].count, 4);

    if (!to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < a[1].count; i++)
        to[i] = a[2].value + (uint32_t)i * 2654435761u;
    return CUDA_SUCCESS;
}

static CUresult add(CUcontext context, const union argument *a)
{
    uint32_t *to = reach(context, a[0].address, a[2].count, 4);
    const uint32_t *from = reach(context, a[1].address, a[2].count, 4);

    if (!to || !from)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < a[2].count; i++)
        to[i] += from[i];
    return CUDA_SUCCESS;
}

static CUresult spin(CUcontext context, const union argument *a)
{
    emu_sleep(a[0].nanoseconds);
    return CUDA_SUCCESS;
}

static CUresult hold(CUcontext context, const union argument *a)
{
    const volatile uint32_t *flag = reach(context, a[0].address, 1, 4);

    if (!flag)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    while (*flag != a[1].value && !context->destroyed)
        usleep(50);
    return CUDA_SUCCESS;
}

static CUresult fault(CUcontext context, const union argument *a)
{
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static const struct kernel kernels[] = {
    {"stamp", "qqd", stamp}, {"add", "qqq", add},  {"spin", "q", spin},
    {"hold", "qd", hold},    {"fault", "", fault},
};

static CUresult run(struct work *work)
{
    struct launch *launch = (struct launch *)work;

    return launch->kernel ? launch->kernel->run(work->context, launch->arguments) : CUDA_SUCCESS;
}

/* ---- modules ---- */

API cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    CUmodule made;

    if (error)
        return error;
    if (!module || !image)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof(*made));
    if (made)
        *module = made;
    return emu_leave(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

API cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                       void **values)
{
    return cuModuleLoadData(module, image);
}

API cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadData(module, image);
}

API cuModuleLoad(CUmodule *module, const char *path)
{
    return access(path, R_OK) ? CUDA_ERROR_FILE_NOT_FOUND : cuModuleLoadData(module, path);
}

API cuModuleUnload(CUmodule module)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);

    if (error)
        return error;
    for (CUfunction function = module->functions, next; function; function = next) {
        next = function->next;
        free(function);
    }
    free(module);
    return emu_leave(CUDA_SUCCESS);
}

static CUfunction function_new(CUmodule module, const char *name)
{
    CUfunction function = calloc(1, sizeof(*function) + strlen(name) + 1);

    if (!function)
        return NULL;
    strcpy(function->name, name);
    for (unsigned i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
        if (!strcmp(kernels[i].name, name))
            function->kernel = &kernels[i];
    function->next = module->functions;
    module->functions = function;
    return function;
}

API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    CUfunction found;

    if (error)
        return error;
    if (!function || !module || !name)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    for (found = module->functions; found && strcmp(found->name, name); found = found->next)
        ;
    if (!found)
        found = function_new(module, name);
    if (found)
        *function = found;
    return emu_leave(found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- launches ---- */

static CUresult launch(CUfunction function, CUstream handle, void **arguments)
{
    CUstream stream;
    CUresult error =
        emu_enter_stream(handle, function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, &stream);
    struct launch *made;

    if (error)
        return error;
    if (stream->context != emu_current())
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (function->kernel && *function->kernel->kinds && !arguments)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = emu_work(sizeof(*made), run);
    if (made && function->kernel) {
        made->kernel = function->kernel;
        for (unsigned i = 0; made->kernel->kinds[i]; i++)
            memcpy(&made->arguments[i], arguments[i], made->kernel->kinds[i] == 'q' ? 8 : 4);
    }
    return emu_leave(emu_submit(stream, (struct work *)made, NULL));
}

static CUresult cuLaunchKernel_on(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                  CUstream stream, void **arguments, void **extra)
{
    if (!gx || !gy || !gz || !bx || !by || !bz)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, stream, arguments);
}
STREAMED(cuLaunchKernel,
         (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
          unsigned bz, unsigned shared, CUstream stream, void **arguments, void **extra),
         (function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra))

static CUresult cuLaunchCooperativeKernel_on(CUfunction function, unsigned gx, unsigned gy,
                                             unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                             unsigned shared, CUstream stream, void **arguments)
{
    return cuLaunchKernel_on(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);
}
STREAMED(cuLaunchCooperativeKernel,
         (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
          unsigned bz, unsigned shared, CUstream stream, void **arguments),
         (function, gx, gy, gz, bx, by, bz, shared, stream, arguments))

static CUresult cuLaunchKernelEx_on(const CUlaunchConfig *config, CUfunction function,
                                    void **arguments, CUstream stream)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel_on(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                             config->blockDimX, config->blockDimY, config->blockDimZ,
                             config->sharedMemBytes, stream, arguments, NULL);
}

API cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                     void **extra)
{
    return cuLaunchKernelEx_on(config, function, arguments, config ? config->hStream : NULL);
}

API cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra)
{
    return cuLaunchKernelEx_on(config, function, arguments,
                               config ? emu_per_thread(config->hStream) : NULL);
}
