/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recover.c -- from a pool's memory to its versions, and repairs
 *
 * Work grows with slots and versions, never with bytes: what a version's bytes are worth
 * is checked when they are read.
 *
 * Versions are looked at in the order of their numbers: where two claim the same units,
 * the older keeps them. A version that is damaged keeps its slot, and the units of its
 * body, until it is removed.
 *
 * A pool that is only read may be changed by its writer meanwhile: what looks damaged is
 * looked at again, and is nothing if it has changed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

#define CHUNK 256u /* slots that are read at once */
#define AGAIN 8
#define AHEAD 8  /* bodies that are fetched while others are checked */
#define LINES 32 /* of damage; the rest is counted */

static void tell(struct pool *pool, const char *format, uint32_t slot, uint64_t number,
                 const char *why)
{
    if (pool->lines++ < LINES)
        log_warn(format, pool->map->path, slot, number, why);
    else if (pool->lines == LINES + 1)
        log_warn("%s: more is damaged or repaired than is told here", pool->map->path);
}

/* ---- superblocks ---- */

static bool has_magic(const uint8_t *page)
{
    uint64_t magic;

    memcpy(&magic, page, sizeof(magic));
    return magic == PORTUS_POOL_MAGIC;
}

static int choose_superblock(struct pool *pool)
{
    struct portus_pool_superblock *super = &pool->super, other;
    uint8_t pages[2][PORTUS_POOL_PAGE];
    int errors[2], best;

    if (pool->map->size < PORTUS_POOL_SECOND + PORTUS_POOL_PAGE) {
        log_error("%s: too short to be a pool", pool->map->path);
        return -EUCLEAN;
    }
    for (int copy = 0; copy < 2; copy++) {
        if (map_read(pool->map, super_offset(copy), pages[copy], PORTUS_POOL_PAGE) != 0)
            memset(pages[copy], 0xff, PORTUS_POOL_PAGE);
        errors[copy] = super_check(pages[copy], pool->map->size);
    }
    for (int copy = 0; copy < 2; copy++) {
        if (errors[copy] == -EPROTONOSUPPORT) {
            memcpy(super, pages[copy], sizeof(*super));
            log_error("%s: a pool of layout version %u, this program knows %u: not opened",
                      pool->map->path, super->version, PORTUS_POOL_VERSION);
            return -EPROTONOSUPPORT;
        }
    }
    if (errors[0] != 0 && errors[1] != 0) {
        log_error("%s: %s: left as it is", pool->map->path,
                  has_magic(pages[0]) || has_magic(pages[1])
                      ? "both superblocks are damaged, or the file was cut"
                      : "not a pool");
        return -EUCLEAN;
    }
    memcpy(super, pages[0], sizeof(*super));
    memcpy(&other, pages[1], sizeof(other));
    best = errors[0] != 0 || (errors[1] == 0 && other.generation > super->generation);
    if (best == 1)
        *super = other;
    if (errors[best ^ 1] != 0 || memcmp(pages[0], pages[1], sizeof(*super)) != 0) {
        int error = 0;

        pool->repaired++;
        if (pool->map->writable) {
            error = map_write(pool->map, super_offset(best ^ 1), super, sizeof(*super));
            if (error == 0)
                error = map_fence(pool->map);
        }
        log_warn("%s: superblock %d %s: %s", pool->map->path, best ^ 1,
                 errors[best ^ 1] != 0 ? "is damaged" : "is older",
                 error != 0            ? "could not be repaired"
                 : pool->map->writable ? "repaired from the other"
                                       : "the other is used");
        if (error != 0)
            return error;
    }
    pool->bounds = (struct body_bounds){super->data, super->pool_bytes};
    return 0;
}

/* ---- slots ---- */

/* The second copy first: what a writer does in between then looks like its first half. */
static void read_pair(struct pool *pool, uint32_t slot, struct portus_pool_slot copies[2])
{
    for (int copy = 1; copy >= 0; copy--)
        if (map_read(pool->map, slot_offset(&pool->super, slot, copy), &copies[copy],
                     sizeof(copies[copy])) != 0)
            memset(&copies[copy], 0xff, sizeof(copies[copy]));
}

static enum slot_state judge(struct pool *pool, uint32_t slot, struct portus_pool_slot copies[2])
{
    enum slot_state state = slot_judge(pool->super.uuid, slot, copies);
    struct portus_pool_slot before[2];

    for (int i = 0; !pool->map->writable && state > SLOT_COMMITTED && i < AGAIN; i++) {
        memcpy(before, copies, sizeof(before));
        read_pair(pool, slot, copies);
        if (memcmp(before, copies, sizeof(before)) == 0)
            break;
        state = slot_judge(pool->super.uuid, slot, copies);
    }
    return state;
}

static int add_damaged(struct pool *pool, uint32_t slot, uint64_t first, uint64_t units)
{
    if (pool->damaged_count == pool->damaged_room) {
        size_t room = pool->damaged_room * 2 + 16;
        struct damaged *more = realloc(pool->damaged, room * sizeof(*more));

        if (more == NULL)
            return -ENOMEM;
        pool->damaged = more;
        pool->damaged_room = room;
    }
    pool->damaged[pool->damaged_count++] = (struct damaged){slot, first, units};
    return 0;
}

static void mend_marks(struct pool *pool, uint32_t slot, const struct portus_pool_slot copies[2],
                       struct entry *entry)
{
    struct portus_pool_marks marks;
    enum marks_state state = slot_marks(pool->super.uuid, slot, entry->number, copies, &marks);

    entry->pinned = marks.flags & PORTUS_POOL_PINNED;
    entry->damaged = marks.flags & PORTUS_POOL_DAMAGED;
    if (state == MARKS_VALID)
        return;
    if (state != MARKS_HALF) {
        pool->repaired++;
        tell(pool,
             state == MARKS_LOST ? "%s: slot %u: the marks of version %" PRIu64
                                   " are damaged: it is pinned from now on%s"
                                 : "%s: slot %u: a copy of the marks of version %" PRIu64
                                   " is damaged or unfinished: the other is used%s",
             slot, entry->number, "");
    }
    if (pool->map->writable) /* again at the next opening, if not */
        slot_mend_marks(pool->map, &pool->super, slot, copies, &marks);
}

/* One slot: an entry more, or damage, or nothing. */
static int take_slot(struct pool *pool, uint32_t slot, struct portus_pool_slot copies[2])
{
    enum slot_state state = judge(pool, slot, copies);
    const struct portus_pool_slot *line = &copies[state == SLOT_SECOND];
    struct entry entry = {0};
    int error, unwritten = !pool->map->writable;

    /* Where both copies say so their number is known to be right. */
    for (int copy = 0; copy < 2; copy++)
        if (copies[copy].number > pool->newest &&
            (state == SLOT_COMMITTED || slot_fields_valid(pool->super.uuid, slot, &copies[copy])))
            pool->newest = copies[copy].number;
    if (state == SLOT_FREE)
        return 0;
    space_mark(&pool->slots, slot, 1);
    if (state == SLOT_DAMAGED) {
        tell(pool, "%s: slot %u is damaged (version %" PRIu64 "?): that version is left out%s",
             slot, copies[0].commit >> 16, "");
        return add_damaged(pool, slot, 0, 0);
    }
    if (state == SLOT_SECOND || (state == SLOT_HALF && copies[1].commit != 0)) {
        pool->repaired++;
        tell(pool, "%s: slot %u: one copy of version %" PRIu64 " is damaged: %s", slot,
             line->number, pool->map->writable ? "repaired from the other" : "the other is used");
    }
    if (pool->map->writable && state != SLOT_COMMITTED)
        unwritten = slot_rewrite(pool->map, &pool->super, slot, line, state == SLOT_HALF);
    entry.number = line->number;
    entry.takes = line->takes;
    entry.body = line->body;
    entry.body_bytes = line->body_bytes;
    entry.body_crc = line->body_crc;
    entry.slot = slot;
    entry.copy = state == SLOT_SECOND && unwritten; /* a bad block: it is used as it is */
    mend_marks(pool, slot, copies, &entry);
    error = pool_room(pool);
    if (error == 0)
        pool_append(pool, &entry);
    return error;
}

static int take_slots(struct pool *pool)
{
    struct portus_pool_slot(*read)[CHUNK] = malloc(2 * sizeof(*read)), copies[2];
    int error = read == NULL ? -ENOMEM : 0;

    for (uint64_t slot = 0; slot < pool->super.slots && error == 0; slot += CHUNK) {
        uint64_t left = pool->super.slots - slot, n = left < CHUNK ? left : CHUNK;
        bool whole = true;

        for (int copy = 1; copy >= 0; copy--)
            if (map_read(pool->map, slot_offset(&pool->super, slot, copy), read[copy],
                         n * sizeof(**read)) != 0)
                whole = false;
        for (uint32_t i = 0; i < n && error == 0; i++) {
            copies[0] = read[0][i];
            copies[1] = read[1][i];
            if (!whole)
                read_pair(pool, slot + i, copies);
            error = take_slot(pool, slot + i, copies);
        }
    }
    free(read);
    return error;
}

/* ---- versions ---- */

static int by_number(const void *one, const void *other)
{
    const struct entry *a = one, *b = other;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->slot < b->slot ? -1 : 1;
}

static void sort(struct pool *pool)
{
    bool sorted = true;

    for (size_t i = 1; i < pool->count && sorted; i++)
        sorted = pool->entries[i - 1].number < pool->entries[i].number;
    if (!sorted)
        qsort(pool->entries, pool->count, sizeof(*pool->entries), by_number);
}

static int load(struct pool *pool, const struct entry *entry, struct body *body, const char **why)
{
    return body_load(body, pool->map, &pool->bounds, entry->number, entry->body, entry->body_bytes,
                     entry->body_crc, why);
}

static int leave_out(struct pool *pool, struct entry *entry, const char *why, uint64_t first,
                     uint64_t units)
{
    entry->dead = true;
    pool->dead++;
    if (!pool->map->writable && pool_stands(pool, entry) == -ESTALE)
        return 0;
    tell(pool, "%s: slot %u: version %" PRIu64 " is damaged and left out: %s", entry->slot,
         entry->number, why);
    return add_damaged(pool, entry->slot, first, units);
}

/* Takes the units of all extents, or none. */
static bool mark_extents(struct pool *pool, const struct body *body)
{
    for (uint64_t i = 0; i < body->head->extents; i++) {
        const struct portus_pool_extent *extent = &body->extents[i];

        if (space_mark(&pool->data, pool_unit(pool, extent->place), body_units(extent->length)))
            continue;
        while (i-- > 0)
            space_give(&pool->data, pool_unit(pool, body->extents[i].place),
                       body_units(body->extents[i].length));
        return false;
    }
    return true;
}

static int take_version(struct pool *pool, struct entry *entry, struct body bodies[2])
{
    struct body *body = &bodies[0];
    uint64_t first, units = body_units(entry->body_bytes);
    const char *why;
    int error;

    if (!body_inside(&pool->bounds, entry->body, entry->body_bytes))
        return leave_out(pool, entry, "its body lies outside of the data space", 0, 0);
    /* Before it is read: so no pool, whatever it says, makes more to read than it has. */
    first = pool_unit(pool, entry->body);
    if (!space_mark(&pool->data, first, units))
        return leave_out(pool, entry, "its body overlaps an older version", 0, 0);
    error = load(pool, entry, body, &why);
    if (error == -ENOMEM)
        return error;
    if (error != 0)
        return leave_out(pool, entry, why, first, units);
    if (!mark_extents(pool, body))
        return leave_out(pool, entry, "its extents overlap each other or an older version", first,
                         units);
    entry->units = body_stored(body);
    entry->settled = body->head->flags & PORTUS_POOL_SETTLED;
    entry->owner = body->head->owner;
    entry->hashes = body_hash(body, pool->seed);
    return 0;
}

/*
 * Whether entry was replaced by a rename that stopped before it was removed: then what
 * replaced it is taken in its place, with its claim to the extents. If that is not of the
 * same file and extents, it is that which is damaged.
 */
static int was_taken(struct pool *pool, struct entry *entry, struct body bodies[2], bool *taken)
{
    struct entry *other = &pool->entries[entry->other - 1];
    const char *why;
    int error = load(pool, other, &bodies[1], &why);

    *taken = false;
    if (error == -ENOMEM)
        return error;
    if (error != 0 || other->dead)
        return 0; /* left out in its turn */
    error = load(pool, entry, &bodies[0], &why);
    if (error == -ENOMEM)
        return error;
    if (error == 0 &&
        (!body_same_key(&bodies[0], &bodies[1]) || !body_same_extents(&bodies[0], &bodies[1])))
        return leave_out(pool, other, "it takes the place of another file's version", 0, 0);
    error = take_version(pool, other, bodies);
    *taken = error == 0 && !other->dead;
    return error;
}

static void find_taken(struct pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        const struct entry *entry = &pool->entries[i];
        struct entry *old = NULL;

        if (entry->takes != 0 && entry->takes < entry->number &&
            (i == 0 || entry->number != pool->entries[i - 1].number))
            old = pool_find(pool, entry->takes);
        if (old != NULL)
            old->other = i + 1;
    }
}

static int take_versions(struct pool *pool, struct body bodies[2])
{
    int error = 0;

    find_taken(pool);
    for (size_t i = 0; i < pool->count && error == 0; i++) {
        struct entry *entry = &pool->entries[i];
        bool taken = false;

        if (i + AHEAD < pool->count)
            map_prefetch(pool->map, pool->entries[i + AHEAD].body);
        if (entry->dead || entry->units != 0) /* left out, or taken already */
            continue;
        if (i > 0 && entry->number == pool->entries[i - 1].number) {
            error = leave_out(pool, entry, "another slot has the same number", 0, 0);
            continue;
        }
        if (entry->other != 0)
            error = was_taken(pool, entry, bodies, &taken);
        if (error == 0 && !taken)
            error = take_version(pool, entry, bodies);
        if (error != 0 || !taken)
            continue;
        if (pool->map->writable && slot_retire(pool->map, &pool->super, entry->slot) == 0)
            space_give(&pool->slots, entry->slot, 1);
        entry->dead = true;
        pool->dead++;
    }
    return error;
}

int recover(struct pool *pool)
{
    struct body bodies[2] = {0};
    int error = choose_superblock(pool);

    if (error == 0)
        error =
            space_open(&pool->data, (pool->super.pool_bytes - pool->super.data) / PORTUS_POOL_UNIT);
    if (error == 0)
        error = space_open(&pool->slots, pool->super.slots);
    if (error == 0)
        error = take_slots(pool);
    if (error == 0) {
        sort(pool);
        error = take_versions(pool, bodies);
    }
    if (error == 0)
        error = index_room(pool);
    if (error == 0)
        error = owner_build(pool);
    body_free(&bodies[0]);
    body_free(&bodies[1]);
    return error;
}
