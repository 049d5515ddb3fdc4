/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * draft.c -- a version that is being written: its extents, and how it becomes one
 *
 * Not here: the order of stores of the commit itself (catalogue.c).
 *
 * Extents are kept in the order of their offsets in the file. Each has space for the
 * rest of its MiB of the file, as far as a free run is found, and gives back at commit
 * what it did not need. Bytes go straight into the pool; as long as they come one after
 * the other their CRC is computed on the way, otherwise from the pool at commit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/copy.h"
#include "common/log.h"
#include "store/pool_private.h"

#define START_MASK                                                                                 \
    4095ull /* an extent begins at a page of the file, so that backward writes share */

struct draft_extent {
    uint64_t offset, place;
    uint64_t units; /* that it has taken */
    uint32_t length;
    uint32_t crc;
    bool summed; /* crc is that of its bytes */
    bool landed; /* it has the bytes that it came with, and room for no others */
};

struct pool_draft {
    struct pool *pool;
    struct pool_key key;
    struct draft_extent *extents;
    size_t count, room;
    uint64_t wanted_from, wanted_to; /* bytes that are about to be written */
    uint64_t units;                  /* that its extents have taken */
    uint64_t expected;               /* bytes that count as taken, if that is more */
    int error;               /* a write failed half way: what it holds is not what was written */
    struct pool_draft *next; /* of the pool */
};

void draft_use(const struct pool *pool, const struct pool_share *share, struct pool_usage *usage)
{
    for (const struct pool_draft *draft = pool->drafts; draft != NULL; draft = draft->next) {
        if (!pool_counts(share, draft->key.owner))
            continue;
        usage->objects++;
        usage->bytes += draft->units * PORTUS_POOL_UNIT > draft->expected
                            ? draft->units * PORTUS_POOL_UNIT
                            : draft->expected;
    }
}

void pool_expect(struct pool_draft *draft, uint64_t bytes)
{
    draft->expected = bytes == 0 ? 0 : draft->units * PORTUS_POOL_UNIT + pool_needs(bytes);
}

int pool_begin(struct pool *pool, const struct pool_key *key, struct pool_draft **out)
{
    struct pool_draft *draft;

    if (!pool->map->writable)
        return -EROFS;
    if (pool->map->failed != 0)
        return pool->map->failed;
    if (key->handle_bytes > POOL_HANDLE_MAX)
        return -EINVAL;
    draft = calloc(1, sizeof(*draft));
    if (draft == NULL)
        return -ENOMEM;
    draft->pool = pool;
    draft->key = *key;
    draft->next = pool->drafts;
    pool->drafts = draft;
    *out = draft;
    return 0;
}

static void give(struct pool_draft *draft, const struct draft_extent *extent, uint64_t keep)
{
    draft->units -= extent->units - keep;
    space_give(&draft->pool->data, pool_unit(draft->pool, extent->place) + keep,
               extent->units - keep);
}

void pool_drop(struct pool_draft *draft)
{
    if (draft == NULL)
        return;
    for (struct pool_draft **at = &draft->pool->drafts; *at != NULL; at = &(*at)->next) {
        if (*at == draft) {
            *at = draft->next;
            break;
        }
    }
    for (size_t i = 0; i < draft->count; i++)
        give(draft, &draft->extents[i], 0);
    free(draft->extents);
    free(draft);
}

/* ---- extents ---- */

/* The file's bytes that an extent can hold end here. */
static uint64_t reach(const struct pool_draft *draft, size_t i)
{
    const struct draft_extent *extent = &draft->extents[i];
    uint64_t end = extent->offset + extent->units * PORTUS_POOL_UNIT;
    uint64_t window = (extent->offset | (PORTUS_POOL_EXTENT - 1)) + 1;

    if (extent->landed)
        end = window = extent->offset + extent->length;
    end = end < window ? end : window;
    if (i + 1 < draft->count && draft->extents[i + 1].offset < end)
        end = draft->extents[i + 1].offset;
    return end;
}

/* How many extents begin at or before offset. */
static size_t before(const struct pool_draft *draft, uint64_t offset)
{
    size_t low = 0, high = draft->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (draft->extents[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives back what extents have taken ahead. */
static void trim(struct pool_draft *draft)
{
    for (size_t i = 0; i < draft->count; i++) {
        struct draft_extent *extent = &draft->extents[i];
        uint64_t used = extent->length, end = reach(draft, i);

        if (extent->offset < draft->wanted_to && end > draft->wanted_from) {
            end = end < draft->wanted_to ? end : draft->wanted_to;
            used = end - extent->offset > used ? end - extent->offset : used;
        }
        give(draft, extent, body_units(used));
        extent->units = body_units(used);
    }
}

/* Where nothing is free: what all drafts have taken ahead is. */
static bool trim_all(struct pool *pool)
{
    uint64_t before = pool->data.free;

    for (struct pool_draft *draft = pool->drafts; draft != NULL; draft = draft->next)
        trim(draft);
    return pool->data.free > before;
}

static int grow(struct pool_draft *draft)
{
    size_t room = draft->room * 2 + 16;
    struct draft_extent *more;

    if (draft->count < draft->room)
        return 0;
    more = realloc(draft->extents, room * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    draft->extents = more;
    draft->room = room;
    return 0;
}

/* An extent for the bytes from offset on, which none holds, at index i. */
static int add(struct pool_draft *draft, size_t i, uint64_t offset)
{
    uint64_t least = offset & -(uint64_t)PORTUS_POOL_EXTENT, first, units;
    uint64_t end = least + PORTUS_POOL_EXTENT, start = offset & ~START_MASK;
    struct draft_extent *extent;

    if (i > 0 && reach(draft, i - 1) > start)
        start = reach(draft, i - 1);
    if (i < draft->count && draft->extents[i].offset < end)
        end = draft->extents[i].offset;
    if (grow(draft) != 0)
        return -ENOMEM;
    units = space_take(&draft->pool->data, body_units(end - start), &first);
    if (units == 0)
        return trim_all(draft->pool) ? 0 : -ENOSPC; /* 0: try again */
    if (start + units * PORTUS_POOL_UNIT <= offset)
        start = offset; /* little was free: none of it for bytes before */
    extent = &draft->extents[i];
    memmove(extent + 1, extent, (draft->count - i) * sizeof(*extent));
    *extent = (struct draft_extent){
        .offset = start,
        .place = draft->pool->bounds.begin + first * PORTUS_POOL_UNIT,
        .units = units,
        .summed = true,
    };
    draft->count++;
    draft->units += units;
    return 0;
}

/* Gives back what was taken for a write that then did not come. */
static void remove_empty(struct pool_draft *draft)
{
    size_t kept = 0;

    for (size_t i = 0; i < draft->count; i++) {
        if (draft->extents[i].length == 0)
            give(draft, &draft->extents[i], 0);
        else
            draft->extents[kept++] = draft->extents[i];
    }
    draft->count = kept;
}

/* Takes space for all of the range that has none. */
static int reserve(struct pool_draft *draft, uint64_t offset, uint64_t end)
{
    int error = 0;

    draft->wanted_from = offset;
    draft->wanted_to = end;
    while (offset < end && error == 0) {
        size_t i = before(draft, offset);

        if (i == 0 || reach(draft, i - 1) <= offset)
            error = add(draft, i, offset);
        else
            offset = reach(draft, i - 1);
    }
    draft->wanted_from = draft->wanted_to = 0;
    if (error != 0)
        remove_empty(draft);
    return error;
}

/* ---- bytes ---- */

static int fill(struct pool_draft *draft, struct draft_extent *extent, uint32_t to)
{
    static const char zeros[4096];
    int error = 0;

    while (extent->length < to && error == 0) {
        uint32_t n = to - extent->length < sizeof(zeros) ? to - extent->length : sizeof(zeros);

        error =
            map_write_crc(draft->pool->map, extent->place + extent->length, zeros, n, &extent->crc);
        extent->length += n;
    }
    return error;
}

static int put(struct pool_draft *draft, struct draft_extent *extent, uint32_t at, const void *data,
               uint32_t length)
{
    struct map *map = draft->pool->map;
    int error = fill(draft, extent, at);

    if (error != 0)
        return error;
    if (at == 0 && length >= extent->length) {
        extent->crc = 0;
        extent->summed = true;
    } else if (at < extent->length) {
        extent->summed = false;
    }
    if (extent->summed)
        error = map_write_crc(map, extent->place + at, data, length, &extent->crc);
    else
        error = map_write(map, extent->place + at, data, length);
    if (at + length > extent->length)
        extent->length = at + length;
    return error;
}

int pool_write(struct pool_draft *draft, uint64_t offset, const void *data, size_t length)
{
    const char *from = data;
    int error;

    if (draft->error != 0)
        return draft->error;
    if (length == 0)
        return 0;
    if (offset > INT64_MAX - PORTUS_POOL_EXTENT || length > INT64_MAX - PORTUS_POOL_EXTENT - offset)
        return -EFBIG;
    error = reserve(draft, offset, offset + length);
    if (error != 0)
        return error;
    while (length > 0 && draft->error == 0) {
        size_t i = before(draft, offset) - 1;
        uint64_t n = reach(draft, i) - offset;

        n = n < length ? n : length;
        draft->error = put(draft, &draft->extents[i], offset - draft->extents[i].offset, from, n);
        from += n;
        offset += n;
        length -= n;
    }
    return draft->error;
}

int draft_adopt(struct pool_draft *draft, uint64_t offset, uint64_t place, uint32_t length)
{
    struct draft_extent extent = {.offset = offset,
                                  .place = place,
                                  .units = body_units(length),
                                  .length = length,
                                  .summed = true,
                                  .landed = true};
    size_t i = before(draft, offset);

    if (draft->error != 0)
        return draft->error;
    if (offset > INT64_MAX - PORTUS_POOL_EXTENT)
        return -EFBIG;
    if ((i > 0 && draft->extents[i - 1].offset + draft->extents[i - 1].length > offset) ||
        (i < draft->count && draft->extents[i].offset - offset < length))
        return -EEXIST;
    if (grow(draft) != 0)
        return -ENOMEM;
    draft->error = map_landed(draft->pool->map, place, length, &extent.crc);
    if (draft->error != 0)
        return draft->error;
    memmove(&draft->extents[i + 1], &draft->extents[i],
            (draft->count - i) * sizeof(*draft->extents));
    draft->extents[i] = extent;
    draft->count++;
    draft->units += extent.units;
    return 0;
}

int pool_resize(struct pool_draft *draft, uint64_t size)
{
    size_t i = before(draft, size);

    if (i > 0 && size > draft->extents[i - 1].offset &&
        size - draft->extents[i - 1].offset < draft->extents[i - 1].length) {
        draft->extents[i - 1].length = size - draft->extents[i - 1].offset;
        draft->extents[i - 1].summed = false;
    }
    for (; i > 0 && draft->extents[i - 1].offset == size; i--)
        ;
    for (size_t j = i; j < draft->count; j++)
        give(draft, &draft->extents[j], 0);
    draft->count = i;
    return 0;
}

/* ---- commit ---- */

/* The CRCs that are not known yet; surplus units go back. */
static int finish(struct pool_draft *draft)
{
    int error = 0;

    trim(draft);
    for (size_t i = 0; i < draft->count && error == 0; i++) {
        struct draft_extent *extent = &draft->extents[i];

        if (!extent->summed) {
            extent->crc = 0;
            error =
                map_read_crc(draft->pool->map, extent->place, NULL, extent->length, &extent->crc);
            extent->summed = error == 0;
        }
    }
    return error;
}

int pool_publish(struct pool *pool, struct body *body, uint64_t takes, bool pinned, bool *committed)
{
    struct portus_pool_slot line = {0};
    struct portus_pool_marks marks = {0};
    struct entry entry = {0};
    struct entry *added;
    uint64_t slot, first, units = body_units(body->head->bytes);
    int error = pool_room(pool);

    *committed = false;
    if (error == 0)
        error = index_room(pool);
    if (error != 0)
        return error;
    if (pool->newest + 1 >= 1ull << PORTUS_POOL_NUMBER_BITS) {
        log_error("%s: its numbers are used up: nothing is stored any more", pool->map->path);
        return -EOVERFLOW;
    }
    if (!space_take_all(&pool->slots, 1, &slot)) {
        log_warn("%s: holds %llu versions, no more: %s is not stored", pool->map->path,
                 (unsigned long long)pool->slots.units, body->path);
        return -ENOSPC;
    }
    if (!space_take_all(&pool->data, units, &first) &&
        !(trim_all(pool) && space_take_all(&pool->data, units, &first))) {
        space_give(&pool->slots, slot, 1);
        return -ENOSPC;
    }
    body->head->number = pool->newest + 1;
    line.number = body->head->number;
    line.takes = takes;
    line.body = pool->bounds.begin + first * PORTUS_POOL_UNIT;
    line.body_bytes = body->head->bytes;
    line.body_crc = portus_crc32(0, body->head, body->head->bytes);
    error = map_write(pool->map, line.body, body->head, body->head->bytes);
    if (error == 0 && pinned) {
        marks.number = line.number;
        marks.flags = PORTUS_POOL_PINNED;
        error = slot_mark(pool->map, &pool->super, slot, &marks);
    }
    pool->newest = line.number; /* used up, whatever comes of it */
    if (error == 0)
        error = slot_commit(pool->map, &pool->super, slot, &line, committed);
    if (error != 0) {
        /* If it may count as committed the units stay taken until the next opening tells. */
        if (!*committed) {
            space_give(&pool->data, first, units);
            space_give(&pool->slots, slot, 1);
        }
        return error;
    }
    entry.number = line.number;
    entry.takes = takes;
    entry.body = line.body;
    entry.body_bytes = line.body_bytes;
    entry.body_crc = line.body_crc;
    entry.hashes = body_hash(body, pool->seed);
    entry.units = body_stored(body);
    entry.slot = slot;
    entry.pinned = pinned;
    entry.settled = body->head->flags & PORTUS_POOL_SETTLED;
    entry.owner = body->head->owner;
    added = pool_append(pool, &entry);
    owner_add(pool, added);
    index_add(pool, added);
    room_added(pool, added);
    return 0;
}

int pool_commit(struct pool_draft *draft, const struct pool_attributes *attributes,
                uint64_t *number)
{
    struct pool *pool = draft->pool;
    struct body body = {0};
    bool committed = false;
    int error = draft->error;

    if (error == 0) {
        pool_resize(draft, attributes->size);
        error = finish(draft);
    }
    if (error == 0)
        error = body_make(&body, &draft->key, attributes, draft->count);
    if (error == 0) {
        for (size_t i = 0; i < draft->count; i++)
            body.extents[i] = (struct portus_pool_extent){
                .offset = draft->extents[i].offset,
                .place = draft->extents[i].place,
                .length = draft->extents[i].length,
                .crc = draft->extents[i].crc,
            };
        error = pool_publish(pool, &body, 0, false, &committed);
    }
    if (error == 0)
        *number = pool->newest;
    if (committed)
        draft->count = 0; /* the version's now */
    body_free(&body);
    pool_drop(draft);
    return error;
}
