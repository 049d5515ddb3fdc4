/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * owner.c -- what each user's versions take of a pool
 *
 * Kept as versions come and go: what a user has taken is asked for at each few MiB that are
 * pulled, and a pool may hold a million versions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/pool_private.h"

/* Where an owner is, or belongs. */
static size_t place(const struct pool *pool, uint32_t owner)
{
    size_t low = 0, high = pool->owner_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pool->owners[middle].owner < owner)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct owner *owner_find(const struct pool *pool, uint32_t owner)
{
    size_t at = place(pool, owner);

    return at < pool->owner_count && pool->owners[at].owner == owner ? &pool->owners[at] : NULL;
}

int owner_room(struct pool *pool)
{
    size_t room = pool->owner_room * 2 + 4;
    struct owner *more;

    if (pool->owner_count < pool->owner_room)
        return 0;
    more = realloc(pool->owners, room * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    pool->owners = more;
    pool->owner_room = room;
    return 0;
}

void owner_add(struct pool *pool, const struct entry *entry)
{
    size_t at = place(pool, entry->owner);
    struct owner *owner = &pool->owners[at];

    if (at == pool->owner_count || owner->owner != entry->owner) {
        memmove(owner + 1, owner, (pool->owner_count - at) * sizeof(*owner));
        *owner = (struct owner){.owner = entry->owner};
        pool->owner_count++;
    }
    owner->units += entry->units;
    owner->versions++;
}

void owner_remove(struct pool *pool, const struct entry *entry)
{
    struct owner *owner = owner_find(pool, entry->owner);

    owner->units -= entry->units;
    owner->versions--;
}

int owner_build(struct pool *pool)
{
    int error = 0;

    for (size_t i = 0; i < pool->count && error == 0; i++) {
        if (pool->entries[i].dead)
            continue;
        error = owner_room(pool);
        if (error == 0)
            owner_add(pool, &pool->entries[i]);
    }
    return error;
}

void owner_close(struct pool *pool)
{
    for (size_t i = 0; i < pool->owner_count; i++)
        free(pool->owners[i].spare.again);
    free(pool->owners);
}
