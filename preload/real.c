/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * real.c -- finds the functions behind ours
 *
 * dlsym by the version that glibc had before it moved into libc: the shim then
 * loads on systems from 2.28 on, wherever it was built. No dlvsym, which musl has
 * not.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>

#include "versions.h"

#define HOOK(type, name, parameters, arguments, class, text)                                       \
    static type lacks_##name parameters                                                            \
    {                                                                                              \
        errno = ENOSYS;                                                                            \
        return (type)-1;                                                                           \
    }                                                                                              \
    static type first_##name parameters                                                            \
    {                                                                                              \
        int saved = errno;                                                                         \
        void *found = dlsym(RTLD_NEXT, #name);                                                     \
                                                                                                   \
        real_##name = found != NULL ? (type(*) parameters)found : lacks_##name;                    \
        errno = saved;                                                                             \
        return real_##name arguments;                                                              \
    }                                                                                              \
    type(*real_##name) parameters = first_##name;
#include "hooks.def"
#undef HOOK
