/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * badblocks.c -- bad blocks of a pool's medium, by libpmem2, and what they hit
 *
 * Not here: what happens when one is read or written (map.c), and repairs (scrub.c).
 */
#include "store/badblocks.h"

#include <errno.h>
#include <libpmem2.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

/* Calls each for all; error of libpmem2 is told. */
static int walk(struct map *map,
                int (*each)(struct pmem2_badblock_context *context,
                            const struct pmem2_badblock *block, void *argument),
                void *argument)
{
    struct pmem2_source *source = NULL;
    struct pmem2_badblock_context *context = NULL;
    struct pmem2_badblock block;
    int error = pmem2_source_from_fd(&source, map_descriptor(map));

    if (error == 0)
        error = pmem2_badblock_context_new(&context, source);
    while (error == 0) {
        error = pmem2_badblock_next(context, &block);
        if (error == 0)
            error = each(context, &block, argument);
        else if (error == PMEM2_E_NO_BAD_BLOCK_FOUND)
            break;
    }
    if (error != 0 && error != PMEM2_E_NO_BAD_BLOCK_FOUND) {
        log_error("%s: bad blocks: %s", map->path, pmem2_errormsg());
        error = error > PMEM2_E_UNKNOWN ? error : -EOPNOTSUPP; /* -errno, or a code of its own */
    } else {
        error = 0;
    }
    if (context != NULL)
        pmem2_badblock_context_delete(&context);
    if (source != NULL)
        pmem2_source_delete(&source);
    return error;
}

struct list {
    struct bad_block *blocks;
    size_t count;
};

static int note(struct pmem2_badblock_context *context, const struct pmem2_badblock *block,
                void *argument)
{
    struct list *list = argument;
    struct bad_block *more = realloc(list->blocks, (list->count + 1) * sizeof(*more));

    if (more == NULL)
        return -ENOMEM;
    list->blocks = more;
    more[list->count++] = (struct bad_block){block->offset, block->length};
    return 0;
}

int bad_blocks_list(const char *path, struct bad_block **blocks, size_t *count)
{
    struct list list = {0};
    struct map *map;
    int error = map_open(&map, path, false);

    if (error != 0)
        return error;
    error = walk(map, note, &list);
    map_close(map);
    if (error != 0) {
        free(list.blocks);
        return error;
    }
    *blocks = list.blocks;
    *count = list.count;
    return 0;
}

static int clear(struct pmem2_badblock_context *context, const struct pmem2_badblock *block,
                 void *argument)
{
    size_t *cleared = argument;
    int error = pmem2_badblock_clear(context, block);

    *cleared += error == 0;
    return error;
}

int bad_blocks_clear(const char *path, size_t *cleared)
{
    struct map *map;
    int error;

    *cleared = 0;
    error = map_open(&map, path, true);
    if (error != 0)
        return error;
    error = walk(map, clear, cleared);
    map_close(map);
    return error;
}

/* ---- what lies there ---- */

static bool meets(const struct bad_block *range, uint64_t offset, uint64_t length)
{
    return offset < range->offset + range->length && range->offset < offset + length;
}

static void at_version(struct pool *pool, const struct bad_block *range, struct entry *entry,
                       struct body *body, pool_at_each *each, void *argument)
{
    const char *why, *path = NULL;
    bool hit = false;
    int error = body_load(body, pool->map, &pool->bounds, entry->number, entry->body,
                          entry->body_bytes, entry->body_crc, &why);

    if (error == 0)
        path = body->path;
    if (meets(range, entry->body, entry->body_bytes))
        each("the list of its bytes: the version is lost", entry->number, path, argument);
    for (uint64_t i = 0; error == 0 && i < body->head->extents && !hit; i++) {
        hit = meets(range, body->extents[i].place, body->extents[i].length);
        if (hit)
            each("bytes of it", entry->number, path, argument);
    }
}

int pool_at(struct pool *pool, const struct bad_block *range, pool_at_each *each, void *argument)
{
    uint64_t slots = pool->super.slots * sizeof(struct portus_pool_slot);
    struct body body = {0};

    if (range->offset + range->length < range->offset)
        return -EINVAL;
    if (meets(range, super_offset(0), PORTUS_POOL_PAGE) ||
        meets(range, super_offset(1), PORTUS_POOL_PAGE))
        each("a superblock: the other is used", 0, NULL, argument);
    if (meets(range, pool->super.catalogue, slots) ||
        meets(range, pool->super.second_catalogue, slots))
        each("a copy of the catalogue: the other is used", 0, NULL, argument);
    for (size_t i = 0; i < pool->count; i++)
        if (!pool->entries[i].dead)
            at_version(pool, range, &pool->entries[i], &body, each, argument);
    for (size_t i = 0; i < pool->damaged_count; i++)
        if (meets(range, pool->bounds.begin + pool->damaged[i].first * PORTUS_POOL_UNIT,
                  pool->damaged[i].units * PORTUS_POOL_UNIT))
            each("a version that is left out", 0, NULL, argument);
    body_free(&body);
    return 0;
}
