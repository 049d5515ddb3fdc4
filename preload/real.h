/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * real.h -- the functions behind ours: real_write is the next write
 *
 * One pointer for each line of hooks.def. Each first points to a function that
 * looks the real one up and calls it, so there is no set-up, no order of
 * constructors, and nothing to test on the hot path. The types have no `...`:
 * on the supported machines arguments of a variadic function travel as others do.
 */
#ifndef PORTUS_PRELOAD_REAL_H
#define PORTUS_PRELOAD_REAL_H

#include <aio.h>
#include <fts.h>
#include <ftw.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <utime.h>

#define HOOK(type, name, parameters, arguments, class, text) extern type(*real_##name) parameters;
#include "hooks.def"
#undef HOOK

/* The next function of that name after ours, or NULL. */
void *real_find(const char *name);

/*
 * The library of the address `caller`, and its path; NULL where it cannot be had. The
 * caller closes it (dlclose), and may call real_symbol on it.
 */
void *real_library(void *caller, const char **path);

/*
 * As real_find, and where the program sees none: the one that the library of the address
 * `caller` sees. Python loads libraries RTLD_LOCAL, which hides them from the former.
 */
void *real_beside(void *caller, const char *name);

/* Keeps the library of a function, which is called later, also when the program closes it. */
void real_keep(void *function);

/* dlsym, which the shim exports itself; NULL where the program has none. */
typedef void *symbol_function(void *library, const char *name);
symbol_function *real_dlsym(void);
void *real_symbol(void *library, const char *name);
extern symbol_function *_Atomic portus_real_dlsym;

/* One of libdl's functions where versions.h says that it may be NULL, or NULL. */
void *real_loader(const char *name);

#define EXPORT __attribute__((visibility("default")))

#endif
