/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lent.h -- descriptors whose reads come from the pool (PORTUS_RESTORE=read)
 */
#ifndef PORTUS_PRELOAD_LENT_H
#define PORTUS_PRELOAD_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fdtab.h"

#define LENT_CURRENT (-1)

static inline bool lent(int fd)
{
    return (unsigned)fd < FDTAB_SIZE &&
           __builtin_expect(atomic_load_explicit(&fdtab[fd], memory_order_relaxed) == FDTAB_LENT,
                            0);
}

/* Whether a file of that size is worth it, and not in the page cache. */
bool lent_wanted(int fd, uint64_t size);

/*
 * Takes what portusctl says of the file behind fd: more(argument, to, length) are the next
 * bytes of it, 0 at its end. False: fd is read as usual.
 */
bool lent_begin(int fd, const char *pool, long (*more)(void *argument, char *to, size_t length),
                void *argument);

/*
 * read(2), or pread(2) unless offset is LENT_CURRENT, from the pool. False: the caller makes the
 * plain call, nothing has happened.
 */
bool lent_read(int fd, void *data, size_t length, off_t offset, ssize_t *result);

/* fd is read as usual from now on; all of them, where a child may share them. */
void lent_end(int fd);
void lent_end_all(void);

/* In a forked child. */
void lent_forget(void);

#endif
