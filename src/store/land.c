/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * land.c -- room in a pool for bytes that a device writes there by itself
 *
 * It is nobody's draft's until all bytes are there: who drops a draft, or commits it, cannot know
 * what a device still writes. So the room is taken for itself, and given back only by who knows
 * that the device is through with it.
 *
 * What is there may lie in the processor's caches, or have gone past them: it is read once, for its
 * CRC, and flushed as what the processor writes. No completion says that it is persistent.
 */
#include <errno.h>
#include <stdlib.h>

#include "store/pool_private.h"

struct pool_landing {
    struct pool *pool;
    struct pool_landing *next; /* of the pool */
    uint64_t first, units;     /* units 0: a draft's now */
    uint32_t length, owner;
};

int pool_memory(const struct pool *pool, void **base, size_t *length)
{
    if (!map_fixed(pool->map))
        return -EOPNOTSUPP;
    *base = pool->map->base;
    *length = pool->map->size;
    return 0;
}

int pool_land(struct pool *pool, uint32_t owner, uint32_t length, struct pool_landing **out)
{
    struct pool_landing *landing;

    if (!pool->map->writable)
        return -EROFS;
    if (pool->map->failed != 0)
        return pool->map->failed;
    if (length == 0 || length > PORTUS_POOL_EXTENT)
        return -EINVAL;
    landing = calloc(1, sizeof(*landing));
    if (landing == NULL)
        return -ENOMEM;
    landing->units = body_units(length);
    if (!space_take_all(&pool->data, landing->units, &landing->first)) {
        free(landing);
        return -ENOSPC;
    }
    landing->pool = pool;
    landing->length = length;
    landing->owner = owner;
    landing->next = pool->landings;
    pool->landings = landing;
    *out = landing;
    return 0;
}

static uint64_t place_of(const struct pool_landing *landing)
{
    return landing->pool->bounds.begin + landing->first * PORTUS_POOL_UNIT;
}

void *pool_landing_at(const struct pool_landing *landing)
{
    return landing->pool->map->base + place_of(landing);
}

void pool_land_drop(struct pool_landing *landing)
{
    if (landing == NULL)
        return;
    for (struct pool_landing **at = &landing->pool->landings; *at != NULL; at = &(*at)->next)
        if (*at == landing) {
            *at = landing->next;
            break;
        }
    if (landing->units > 0)
        space_give(&landing->pool->data, landing->first, landing->units);
    free(landing);
}

int pool_landed(struct pool_landing *landing, struct pool_draft *draft, uint64_t offset)
{
    int error = draft_adopt(draft, offset, place_of(landing), landing->length);

    if (error == 0)
        landing->units = 0;
    else if (error == -EEXIST)
        error = pool_write(draft, offset, pool_landing_at(landing), landing->length);
    pool_land_drop(landing);
    return error;
}

void landings_use(const struct pool *pool, const struct pool_share *share, struct pool_usage *usage)
{
    for (const struct pool_landing *landing = pool->landings; landing != NULL;
         landing = landing->next)
        if (pool_counts(share, landing->owner))
            usage->bytes += landing->units * PORTUS_POOL_UNIT;
}
