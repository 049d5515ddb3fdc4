/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runtime.h -- what the files of the emulated runtime share
 *
 * The runtime does nothing by itself: it keeps the thread's device and last error, and calls the
 * driver by the pointers that the driver's cuGetProcAddress_v2, found by dlsym, gave it.
 */
#ifndef EMU_RUNTIME_H
#define EMU_RUNTIME_H

#include <stdbool.h>

#include "abi.h"

#ifdef EMU_TOOLKIT
#define RT __attribute__((visibility("default"))) cudaError_t CUDARTAPI
#else
#define RT __attribute__((visibility("default"))) cudaError_t
#endif

struct driver {
#define X(member, name, parameters) CUresult(*member) parameters;
#define S(member, name, parameters) CUresult(*member) parameters, (*member##_pt)parameters;
#include "driver.def"
#undef X
#undef S
};

extern struct driver driver;

cudaError_t runtime_loaded(void);            /* the driver is there, and initialized */
cudaError_t runtime_ready(void);             /* and the thread has a context */
cudaError_t runtime_said(cudaError_t error); /* it is the thread's last one from now on */
int runtime_device(void);
cudaError_t runtime_context(int device, CUcontext *context);

/* Defines an entry point that is one call of the driver. */
#define CALL(name, parameters, call)                                                               \
    RT name parameters                                                                             \
    {                                                                                              \
        cudaError_t error = runtime_ready();                                                       \
        return runtime_said(error ? error : (cudaError_t)driver.call);                             \
    }

/* And a form for programs compiled for the per-thread default stream. */
#define CALLS(name, parameters, function, arguments)                                               \
    CALL(name, parameters, function arguments)                                                     \
    CALL(name##_ptsz, parameters, function##_pt arguments)

#endif
