/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions.h -- the oldest versions of symbols that glibc has moved since
 *
 * Included where they are used, so that the shim needs nothing newer than
 * GLIBC_2.28. tests check what it needs in the end.
 */
#ifndef PORTUS_PRELOAD_VERSIONS_H
#define PORTUS_PRELOAD_VERSIONS_H

#if defined(__x86_64__)
#define PORTUS_OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define PORTUS_OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#else
#define PORTUS_OLD(name) _Static_assert(1, "")
#endif

PORTUS_OLD(dlsym);
PORTUS_OLD(dladdr);
PORTUS_OLD(dlopen);
PORTUS_OLD(dlclose);
PORTUS_OLD(pthread_create);
PORTUS_OLD(pthread_attr_setstacksize);
PORTUS_OLD(pthread_setcancelstate);
PORTUS_OLD(pthread_testcancel);

#endif
