/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * change.h -- what portusctl asks for, done by whoever has the pool
 */
#ifndef PORTUS_STORE_CHANGE_H
#define PORTUS_STORE_CHANGE_H

#include "store/pool.h"

/* Whether op is one of these. */
bool pool_changes(unsigned op);

/*
 * who: whose versions there are for the asker; of others' it hears that they do not exist.
 * op: PORTUS_OP_STORE_PIN, _REMOVE, _ROOM, _CLEAN, _SIZE or _SETTLE; number and flags as in such a
 * message; keep: see pool_make_room. 0 or a negative errno; *answer as in STORE_DONE. -EOPNOTSUPP:
 * what only a portusd does.
 */
int pool_change(struct pool *pool, const struct pool_share *who, unsigned op, uint64_t number,
                unsigned flags, unsigned keep, uint64_t *answer);

#endif
