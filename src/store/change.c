/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * change.c -- what portusctl asks for, done by whoever has the pool: portusd, or portusctl
 * itself where none runs
 */
#include "store/change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "portus/proto.h"

bool pool_changes(unsigned op)
{
    return (op >= PORTUS_OP_STORE_PIN && op <= PORTUS_OP_STORE_ROOM) ||
           op == PORTUS_OP_STORE_CLEAN || op == PORTUS_OP_STORE_SIZE ||
           op == PORTUS_OP_STORE_SETTLE;
}

/* Under another number, which comes after those that belong to it. */
static int settle(struct pool *pool, const struct pool_version *version, uint64_t *answer)
{
    char *path = strdup(version->attributes.path);
    const struct pool_key key = version->key;
    const uint64_t number = version->number;
    struct pool_version newest;
    int error = path == NULL ? -ENOMEM : pool_newest(pool, &key, &newest);

    if (error == 0 && newest.number != number)
        error = -ESTALE;
    if (error == 0)
        error = pool_rename(pool, &key, path, POOL_SETTLED, answer);
    free(path);
    return error;
}

int pool_change(struct pool *pool, const struct pool_share *who, unsigned op, uint64_t number,
                unsigned flags, unsigned keep, uint64_t *answer)
{
    struct pool_version version;
    struct pool_state before, after;
    int64_t room;
    int error;

    if (op == PORTUS_OP_STORE_ROOM) {
        room = pool_make_room_of(pool, who, number, keep);
        *answer = room > 0 ? (uint64_t)room : 0;
        return room < 0 ? (int)room : 0;
    }
    if ((op == PORTUS_OP_STORE_SIZE || op == PORTUS_OP_STORE_CLEAN) && !who->everyone)
        return -EACCES;
    if (op == PORTUS_OP_STORE_SIZE) {
        *answer = number;
        return pool_set_size(pool, number);
    }
    if (op == PORTUS_OP_STORE_CLEAN) {
        pool_look(pool, &before);
        error = pool_remove_damaged(pool);
        pool_look(pool, &after);
        *answer = after.slots_free - before.slots_free;
        return error;
    }
    if (!pool_changes(op))
        return -EOPNOTSUPP;
    error = pool_get(pool, number, &version);
    if (error != 0 || !pool_counts(who, version.key.owner))
        return error == -ENOMEM ? error : -ENOENT;
    *answer = number;
    if (op == PORTUS_OP_STORE_SETTLE)
        return settle(pool, &version, answer);
    if (op == PORTUS_OP_STORE_REMOVE)
        return pool_remove(pool, &version);
    return pool_pin(pool, &version, !(flags & PORTUS_STORE_UNPIN));
}
