/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions.h -- functions that glibc has moved from one library into another since 2.28
 *
 * Included where they are used, so that the shim loads with any glibc from 2.28 on,
 * wherever it was built. They are named by their oldest versions. Before 2.34 they
 * were in libdl and libpthread, which the shim does not ask for: to load two more
 * libraries would double what it costs a program to start. So they are weak, and
 * NULL in an old program that has not loaded these. tests check what it needs in the
 * end.
 */
#ifndef PORTUS_PRELOAD_VERSIONS_H
#define PORTUS_PRELOAD_VERSIONS_H

#include <dlfcn.h>
#include <pthread.h>

#if defined(__x86_64__)
#define PORTUS_OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define PORTUS_OLDEST "GLIBC_2.17"
#endif

#ifdef PORTUS_OLDEST
#define PORTUS_MOVED(name)                                                                         \
    extern __typeof__(name) name __attribute__((weak));                                            \
    __asm__(".symver " #name "," #name "@" PORTUS_OLDEST)
#else
#define PORTUS_MOVED(name) extern __typeof__(name) name __attribute__((weak))
#endif

PORTUS_MOVED(dladdr);
PORTUS_MOVED(dlopen);
PORTUS_MOVED(dlclose);
PORTUS_MOVED(pthread_create);
PORTUS_MOVED(pthread_attr_setstacksize);
PORTUS_MOVED(pthread_setcancelstate);
PORTUS_MOVED(pthread_testcancel);

#endif
