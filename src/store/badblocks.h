/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * badblocks.h -- what the kernel knows to be unreadable of a pool's medium
 *
 * Only persistent memory has such a list; of an ordinary file it is empty. What is lost by
 * a block, and what stands twice, pool_at tells.
 */
#ifndef PORTUS_STORE_BADBLOCKS_H
#define PORTUS_STORE_BADBLOCKS_H

#include "store/pool.h"

struct bad_block {
    uint64_t offset, length; /* in the pool */
};

/* All of them, in a new array. 0 or a negative errno. */
int bad_blocks_list(const char *path, struct bad_block **blocks, size_t *count);

/* Makes them readable again, as zeros: what they held is lost then. The pool must not be in use
 * (-EBUSY). *cleared: how many, error or not. */
int bad_blocks_clear(const char *path, size_t *cleared);

/* Calls each(what, number, path) for all of the pool that lies in the range; number 0: not a
 * version's; path NULL: not known. */
typedef void pool_at_each(const char *what, uint64_t number, const char *path, void *argument);
int pool_at(struct pool *pool, const struct bad_block *range, pool_at_each *each, void *argument);

#endif
