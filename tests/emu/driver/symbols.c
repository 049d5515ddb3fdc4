/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symbols.c -- cuGetProcAddress: names without their version, as the runtime asks for them
 */
#include <string.h>

#include "emu.h"

/* Their addresses are all that is needed. */
#define X(name, since, function, per_thread) extern const char function##_here[] __asm__(#function);
#define P(name, since, function, per_thread)                                                       \
    X(name, since, function, )                                                                     \
    X(name, since, per_thread, )
#include "symbols.def"
#undef X
#undef P

API cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status);
API cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags);

static const struct symbol {
    const char *name;
    int since;
    const void *function, *per_thread;
} symbols[] = {
#define X(name, since, function, per_thread) {#name, since, function##_here, function##_here},
#define P(name, since, function, per_thread) {#name, since, function##_here, per_thread##_here},
#include "symbols.def"
    {"cuGetProcAddress", 11030, (void *)cuGetProcAddress, (void *)cuGetProcAddress},
    {"cuGetProcAddress", 12000, (void *)cuGetProcAddress_v2, (void *)cuGetProcAddress_v2},
};

/* Of the functions of that name the newest that the version knows. */
API cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    const struct symbol *best = NULL;
    bool known = false;

    if (!name || !function || version > EMU_DRIVER_VERSION || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        if (strcmp(symbols[i].name, name))
            continue;
        known = true;
        if (symbols[i].since <= version && (!best || symbols[i].since > best->since))
            best = &symbols[i];
    }
    *function = NULL;
    if (best)
        *function =
            (void *)(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? best->per_thread
                                                                           : best->function);
    if (status)
        *status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

/* The older form has no status: what is not there is an error. */
API cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    CUresult error = cuGetProcAddress_v2(name, function, version, flags, NULL);

    return error || *function ? error : CUDA_ERROR_NOT_FOUND;
}
