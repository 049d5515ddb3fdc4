/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * real.c -- finds the functions behind ours
 *
 * No dlvsym, which musl has not.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>

#include "versions.h"

#define LIBC_DLOPEN 0x80000000 /* glibc's dlfcn.h, internal: as dlopen would have called */

extern void *__libc_dlopen_mode(const char *name, int mode) __attribute__((weak));
extern void *__libc_dlsym(void *library, const char *name) __attribute__((weak));

void *real_loader(const char *name)
{
    static void *_Atomic libdl;

    if (__libc_dlopen_mode == NULL || __libc_dlsym == NULL)
        return NULL;
    if (libdl == NULL)
        libdl = __libc_dlopen_mode("libdl.so.2", RTLD_LAZY | (int)LIBC_DLOPEN);
    return libdl != NULL ? __libc_dlsym(libdl, name) : NULL;
}

void *real_find(const char *name)
{
    return real_symbol(RTLD_NEXT, name);
}

void *real_library(void *caller, const char **path)
{
    Dl_info info;
    void *library;

    if (dladdr == NULL || dlopen == NULL || dlclose == NULL || dladdr(caller, &info) == 0 ||
        (library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NOW)) == NULL)
        return NULL;
    *path = info.dli_fname;
    return library;
}

void *real_beside(void *caller, const char *name)
{
    void *found = real_find(name), *library;
    const char *path;

    if (found != NULL || (library = real_library(caller, &path)) == NULL)
        return found;
    found = real_symbol(library, name);
    dlclose(library); /* the caller keeps it */
    return found;
}

void real_keep(void *function)
{
    Dl_info info;
    void *library;

    if (dladdr != NULL && dlopen != NULL && dlclose != NULL && dladdr(function, &info) != 0 &&
        (library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE)) != NULL)
        dlclose(library);
}

#define HOOK(type, name, parameters, arguments, class, text)                                       \
    static type lacks_##name parameters                                                            \
    {                                                                                              \
        errno = ENOSYS;                                                                            \
        return (type)-1;                                                                           \
    }                                                                                              \
    static type first_##name parameters                                                            \
    {                                                                                              \
        int saved = errno;                                                                         \
        void *found = real_find(#name);                                                            \
                                                                                                   \
        real_##name = found != NULL ? (type(*) parameters)found : lacks_##name;                    \
        errno = saved;                                                                             \
        return real_##name arguments;                                                              \
    }                                                                                              \
    type(*real_##name) parameters = first_##name;
#include "hooks.def"
#undef HOOK
