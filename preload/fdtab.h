/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fdtab.h -- from a descriptor to what we know of its file: see fdtab_file in file.h
 *
 * One look-up is all that a call on any other descriptor costs. The table is only
 * a cache: descriptors can be closed and reused behind our back, so a captured
 * file is compared with what fstat says before its data is touched.
 */
#ifndef PORTUS_PRELOAD_FDTAB_H
#define PORTUS_PRELOAD_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FDTAB_SIZE 65536
#define FDTAB_OURS UINT16_MAX /* a descriptor of the shim's own */

extern _Atomic uint16_t fdtab[FDTAB_SIZE]; /* 0: none; FDTAB_OURS; else 1 + a place in files */

static inline bool fdtab_ours(int fd)
{
    return (unsigned)fd < FDTAB_SIZE &&
           atomic_load_explicit(&fdtab[fd], memory_order_relaxed) == FDTAB_OURS;
}

static inline void fdtab_own(int fd)
{
    if ((unsigned)fd < FDTAB_SIZE)
        atomic_store(&fdtab[fd], FDTAB_OURS);
}

static inline void fdtab_disown(int fd)
{
    if (fdtab_ours(fd))
        atomic_store(&fdtab[fd], 0);
}

#endif
