/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.c -- the driver, and what the runtime keeps of each thread: its device, its last error
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

#define VERSION 13000 /* whose functions are asked for, also by an older runtime */

struct driver driver;
static cudaError_t loading; /* how it went */
static _Thread_local int device;
static _Thread_local cudaError_t last;

typedef CUresult (*lookup)(const char *, void **, int, cuuint64_t,
                           CUdriverProcAddressQueryResult *);

static bool find(lookup lookup, const char *name, void **function, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;

    if (!lookup(name, function, VERSION, flags, &status) && *function)
        return true;
    fprintf(stderr, "emu: the driver has no %s\n", name);
    return false;
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    lookup by_name = library ? (lookup)dlsym(library, "cuGetProcAddress_v2") : NULL;
    bool all = true;

    loading = cudaErrorInsufficientDriver;
    if (!by_name)
        return;
#define X(member, name, parameters) all &= find(by_name, name, (void **)&driver.member, 1);
#define S(member, name, parameters)                                                                \
    X(member, name, ) all &= find(by_name, name, (void **)&driver.member##_pt, 2);
#include "driver.def"
#undef X
#undef S
    if (!all)
        abort();
    loading = (cudaError_t)driver.Init(0);
}

cudaError_t runtime_loaded(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return loading;
}

cudaError_t runtime_context(int ordinal, CUcontext *context)
{
    static CUcontext primary[64];
    cudaError_t error = runtime_loaded();

    if (error)
        return error;
    if (ordinal < 0 || ordinal >= 64)
        return cudaErrorInvalidDevice;
    if (!primary[ordinal])
        error = (cudaError_t)driver.DevicePrimaryCtxRetain(&primary[ordinal], ordinal);
    if (!error)
        *context = primary[ordinal];
    return error;
}

static cudaError_t use(int ordinal)
{
    CUcontext context;
    cudaError_t error = runtime_context(ordinal, &context);

    return error ? error : (cudaError_t)driver.CtxSetCurrent(context);
}

cudaError_t runtime_ready(void)
{
    cudaError_t error = runtime_loaded();
    CUcontext current;

    if (error)
        return error;
    error = (cudaError_t)driver.CtxGetCurrent(&current);
    return error || current ? error : use(device);
}

cudaError_t runtime_said(cudaError_t error)
{
    if (error)
        last = error;
    return error;
}

int runtime_device(void)
{
    return device;
}

RT cudaSetDevice(int ordinal)
{
    cudaError_t error = use(ordinal);

    if (!error)
        device = ordinal;
    return runtime_said(error);
}

/* A context that the program made current by the driver has the say. */
RT cudaGetDevice(int *ordinal)
{
    CUcontext current = NULL;
    cudaError_t error = runtime_loaded();

    if (!error)
        error = (cudaError_t)driver.CtxGetCurrent(&current);
    if (!error && current)
        error = (cudaError_t)driver.CtxGetDevice(ordinal, NULL);
    else if (!error)
        *ordinal = device;
    return runtime_said(error);
}

RT cudaGetLastError(void)
{
    cudaError_t error = last;

    last = cudaSuccess;
    return error;
}

RT cudaPeekAtLastError(void)
{
    return last;
}

static const struct {
    cudaError_t value;
    const char *name, *text;
} errors[] = {
#define R(name, value, text) {name, #name, text},
#define X(driver, name, value, text) R(name, value, text)
#include "../errors.def"
#undef X
#undef R
};

__attribute__((visibility("default"))) const char *cudaGetErrorName(cudaError_t error)
{
    for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (errors[i].value == error)
            return errors[i].name;
    return "unrecognized error code";
}

__attribute__((visibility("default"))) const char *cudaGetErrorString(cudaError_t error)
{
    for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (errors[i].value == error)
            return errors[i].text;
    return "unrecognized error code";
}

RT cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

RT cudaDriverGetVersion(int *version)
{
    cudaError_t error = runtime_loaded();

    if (!error)
        return runtime_said((cudaError_t)driver.DriverGetVersion(version));
    *version = 0; /* no driver: that is no error */
    return cudaSuccess;
}

RT cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                    unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t error = runtime_loaded();
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    void *library = error ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    lookup by_name = library ? (lookup)dlsym(library, "cuGetProcAddress_v2") : NULL;

    if (!error)
        error = (cudaError_t)by_name(name, function, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return runtime_said(error);
}

RT cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                           enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(name, function, RUNTIME_VERSION, flags, status);
}
