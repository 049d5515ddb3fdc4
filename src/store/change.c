/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * change.c -- what portusctl asks for, done by whoever has the pool: portusd, or portusctl
 * itself where none runs
 */
#include "store/change.h"

#include <errno.h>

#include "portus/proto.h"

int pool_change(struct pool *pool, unsigned op, uint64_t number, unsigned flags, unsigned keep,
                uint64_t *answer)
{
    struct pool_version version;
    int64_t room;
    int error;

    if (op == PORTUS_OP_STORE_ROOM) {
        room = pool_make_room(pool, number, keep);
        *answer = room > 0 ? (uint64_t)room : 0;
        return room < 0 ? (int)room : 0;
    }
    error = pool_numbered(pool, number, &version);
    if (error != 0)
        return error;
    *answer = number;
    if (op == PORTUS_OP_STORE_REMOVE)
        return pool_remove(pool, &version);
    return pool_pin(pool, &version, !(flags & PORTUS_STORE_UNPIN));
}
