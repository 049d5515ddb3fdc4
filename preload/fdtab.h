/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fdtab.h -- from a descriptor to what we know of its file
 *
 * One look-up is all that a call on any other descriptor costs. The table is only
 * a cache: descriptors can be closed and reused behind our back, so a captured
 * file is compared with what fstat says before its data is touched.
 */
#ifndef PORTUS_PRELOAD_FDTAB_H
#define PORTUS_PRELOAD_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FDTAB_SIZE 65536
#define FDTAB_OURS UINT16_MAX /* a descriptor of the shim's own */

struct file;
extern _Atomic uint16_t fdtab[FDTAB_SIZE];
extern struct file *files_at(unsigned index);

/* The file behind fd that we keep an eye on, or NULL. */
static inline struct file *fdtab_file(int fd)
{
    uint16_t entry;

    if ((unsigned)fd >= FDTAB_SIZE)
        return NULL;
    entry = atomic_load_explicit(&fdtab[fd], memory_order_relaxed);
    if (__builtin_expect(entry == 0 || entry == FDTAB_OURS, 1))
        return NULL;
    return files_at(entry - 1u);
}

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
