/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c -- the bytes of a version, checked by CRC
 *
 * An extent is checked whole, even if only part of it is wanted: then its bytes go
 * through memory of this process, which others cannot change between check and use.
 * Where the writer is another process, the version may be removed and its units written
 * anew while they are read: so its slot is looked at once more at the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

static struct entry *find(const struct pool *pool, const struct pool_version *version)
{
    struct entry *entry = pool_find(pool, version->number);

    return entry != NULL && entry->slot == version->place ? entry : NULL;
}

static int cached_body(const struct pool *pool, const struct entry *entry, struct body **body)
{
    struct pool_cache *cache = pool->cache;
    int error;

    *body = &cache->body;
    if (cache->number == entry->number)
        return pool_stands(pool, entry);
    cache->number = 0;
    error = pool_body(pool, entry, &cache->body);
    if (error == 0)
        cache->number = entry->number;
    return error;
}

/* Reads an extent, whole, to `to` (NULL: only to be checked). */
static int read_extent(const struct pool *pool, const struct entry *entry,
                       const struct portus_pool_extent *extent, void *to)
{
    uint32_t crc = 0;
    int stale, error = map_read_crc(pool->map, extent->place, to, extent->length, &crc);

    if ((error == 0 && crc == extent->crc) || error == -EFAULT)
        return error;
    stale = pool_stands(pool, entry);
    if (stale != 0)
        return stale;
    log_error("%s: version %llu is damaged: bytes %llu to %llu %s", pool->map->path,
              (unsigned long long)entry->number, (unsigned long long)extent->offset,
              (unsigned long long)extent->offset + extent->length,
              error != 0 ? "cannot be read" : "do not have their CRC");
    return error != 0 ? error : -EUCLEAN;
}

/* The part from offset on of up to length bytes. */
static int read_part(const struct pool *pool, const struct entry *entry,
                     const struct portus_pool_extent *extent, uint64_t skip, char *to,
                     uint64_t length)
{
    struct pool_cache *cache = pool->cache;
    int error;

    if (skip == 0 && length == extent->length)
        return read_extent(pool, entry, extent, to);
    if (cache->bytes == NULL)
        cache->bytes = malloc(PORTUS_POOL_EXTENT);
    if (cache->bytes == NULL)
        return -ENOMEM;
    error = read_extent(pool, entry, extent, cache->bytes);
    if (error == 0)
        memcpy(to, cache->bytes + skip, length);
    return error;
}

/* The first extent that ends after offset. */
static uint64_t first_extent(const struct body *body, uint64_t offset)
{
    uint64_t low = 0, high = body->head->extents;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (body->extents[middle].offset + body->extents[middle].length <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int pool_read(const struct pool *pool, const struct pool_version *version, uint64_t offset,
              void *to, size_t length)
{
    const struct entry *entry = find(pool, version);
    struct body *body;
    char *at = to;
    int error;

    if (entry == NULL)
        return -ESTALE;
    error = cached_body(pool, entry, &body);
    if (error != 0)
        return error;
    if (offset > body->head->size || length > body->head->size - offset) {
        log_error("%s: version %llu has %llu bytes: %zu at %llu are not read", pool->map->path,
                  (unsigned long long)entry->number, (unsigned long long)body->head->size, length,
                  (unsigned long long)offset);
        return -EINVAL;
    }
    for (uint64_t i = first_extent(body, offset); length > 0; i++) {
        const struct portus_pool_extent *extent = &body->extents[i];
        bool last = i == body->head->extents;
        uint64_t hole = length, n;

        if (!last && extent->offset <= offset)
            hole = 0;
        else if (!last && extent->offset - offset < length)
            hole = extent->offset - offset;
        memset(at, 0, hole);
        at += hole;
        offset += hole;
        length -= hole;
        if (length == 0)
            break;
        n = extent->offset + extent->length - offset;
        n = n < length ? n : length;
        error = read_part(pool, entry, extent, offset - extent->offset, at, n);
        if (error != 0)
            return error;
        at += n;
        offset += n;
        length -= n;
    }
    return pool_stands(pool, entry);
}

int pool_extents(const struct pool *pool, const struct pool_version *version,
                 const struct portus_pool_extent **extents, uint64_t *count)
{
    const struct entry *entry = find(pool, version);
    struct body *body;
    int error;

    if (entry == NULL)
        return -ESTALE;
    error = cached_body(pool, entry, &body);
    if (error != 0)
        return error;
    *extents = body->extents;
    *count = body->head->extents;
    return 0;
}

int pool_verify(const struct pool *pool, const struct pool_version *version)
{
    const struct entry *entry = find(pool, version);
    struct body *body;
    int error;

    if (entry == NULL)
        return -ESTALE;
    error = cached_body(pool, entry, &body);
    for (uint64_t i = 0; error == 0 && i < body->head->extents; i++)
        error = read_extent(pool, entry, &body->extents[i], NULL);
    return error != 0 ? error : pool_stands(pool, entry);
}
