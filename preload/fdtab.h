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
#define FDTAB_OURS UINT16_MAX       /* a descriptor of the shim's own */
#define FDTAB_LENT (UINT16_MAX - 1) /* reads come from the pool: see lent.h */

extern _Atomic uint16_t fdtab[FDTAB_SIZE]; /* 0: none; FDTAB_OURS; else 1 + a place in files */

/*
 * Streams of libc on each number, which stay there when another file is put under it.
 * Those of 0 to 2 are never counted: there always is one.
 */
extern _Atomic uint8_t fdtab_streams[FDTAB_SIZE];

static inline bool fdtab_stream(int fd)
{
    return (unsigned)fd < FDTAB_SIZE && (fd <= 2 || atomic_load(&fdtab_streams[fd]) != 0);
}

static inline void fdtab_stream_comes(int fd)
{
    if ((unsigned)fd < FDTAB_SIZE)
        atomic_fetch_add(&fdtab_streams[fd], 1);
}

static inline void fdtab_stream_goes(int fd)
{
    uint8_t count;

    if ((unsigned)fd >= FDTAB_SIZE)
        return;
    count = atomic_load(&fdtab_streams[fd]);
    while (count != 0 && !atomic_compare_exchange_weak(&fdtab_streams[fd], &count, count - 1))
        ;
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
