/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * view.h -- a pool as one of its users may see it
 *
 * A view is bytes in the pool's own format, which are nowhere: they are made as they are
 * asked for. In them are the versions of a share and no others, at places of their own, so
 * that they tell nothing of what lies between. Who reads them needs no other code than for
 * a pool, and checks all of it, every CRC included.
 */
#ifndef PORTUS_STORE_VIEW_H
#define PORTUS_STORE_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "store/pool.h"

struct view;

/* Of the versions that are committed now. -ENOMEM. */
int view_open(struct view **out, struct pool *pool, const struct pool_share *share);
void view_close(struct view *view);

/* How many bytes superblocks, catalogue and bodies have: what a reader wants first. */
uint64_t view_head(const struct view *view);

/* The bytes at offset. -ESTALE: of a version that was removed since; -EINVAL: beyond the end. */
int view_read(struct view *view, uint64_t offset, void *to, size_t length);

#endif
