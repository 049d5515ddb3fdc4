/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * size.c -- makes a pool larger or smaller
 *
 * Only the end moves: the catalogue stays as it is, and what lies beyond a new, lower end
 * must be free, as versions do not move. The superblock says the new size before a file is
 * cut, and after it was extended, so that it never is shorter than its superblock says.
 */
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

#define DATA_LEAST (64u << 10)

static int grow(struct pool *pool, uint64_t size)
{
    struct portus_pool_superblock super = pool->super;
    int error = pool->map->writable ? pool->map->failed : -EROFS;

    if (error != 0)
        return error;
    super.pool_bytes = size & -(uint64_t)PORTUS_POOL_PAGE;
    error = map_extend(pool->map, super.pool_bytes);
    if (error != 0)
        return error;
    super.generation++;
    error = super_write(pool->map, &super, 1);
    if (error == 0)
        error = space_extend(&pool->data, (super.pool_bytes - super.data) / PORTUS_POOL_UNIT);
    if (error != 0)
        return error;
    pool->super = super;
    pool->bounds.end = super.pool_bytes;
    return 0;
}

/* Where the last unit that is taken ends, as an offset in the pool. */
static uint64_t used_to(const struct pool *pool)
{
    uint64_t unit = pool->data.units;

    while (unit > 0 && !(pool->data.bits[(unit - 1) / 64] >> (unit - 1) % 64 & 1))
        unit -= (unit % 64 == 0 && pool->data.bits[unit / 64 - 1] == 0) ? 64 : 1;
    return pool->bounds.begin + unit * PORTUS_POOL_UNIT;
}

static int shrink(struct pool *pool, uint64_t size)
{
    struct portus_pool_superblock super = pool->super;
    uint64_t least = used_to(pool);
    int error = pool->map->writable ? pool->map->failed : -EROFS;

    if (error != 0)
        return error;
    super.pool_bytes = (size + PORTUS_POOL_PAGE - 1) & -(uint64_t)PORTUS_POOL_PAGE;
    if (least < super.data + DATA_LEAST)
        least = super.data + DATA_LEAST;
    if (super.pool_bytes < least) {
        log_error("%s: cannot be smaller than %llu bytes: versions do not move, and one ends "
                  "there: portusctl gc or rm makes room",
                  pool->map->path, (unsigned long long)least);
        return -EBUSY;
    }
    super.generation++;
    error = super_write(pool->map, &super, 1);
    if (error != 0)
        return error;
    space_cut(&pool->data, (super.pool_bytes - super.data) / PORTUS_POOL_UNIT);
    pool->super = super;
    pool->bounds.end = super.pool_bytes;
    return map_cut(pool->map, super.pool_bytes);
}

int pool_set_size(struct pool *pool, uint64_t size)
{
    if (size / PORTUS_POOL_PAGE == pool->super.pool_bytes / PORTUS_POOL_PAGE)
        return 0;
    return size > pool->super.pool_bytes ? grow(pool, size) : shrink(pool, size);
}
