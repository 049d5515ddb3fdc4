/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room.c -- which versions go when room is needed
 *
 * A version is superseded by a newer one of its object, or of its path: programs that
 * write another file and rename it over the old one never have two versions of one
 * object. One that is damaged supersedes nothing. Kept are the newest of both, pinned ones, and
 * what restoring a directory needs: with s the last settled commit of a directory and job, each
 * version that was the newest of its object and path at s.
 *
 * The oldest that may go is wanted again and again, of a million. So entries are passed
 * over once (`next`), and those that have become superfluous since are noted in a heap
 * (`again`): by one more version of their object or path, by one more settled commit of
 * their directory, or because they were unpinned. Nothing else makes an entry
 * superfluous, and each is judged when its turn comes. Where anything is not known
 * (other numbers to keep, no memory for the heap) all are looked at again. So once for all
 * versions, and once for each owner's, of whom nobody makes another's superfluous.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

/* ---- what may go ---- */

/* The next newer one in a chain that takes anybody's place. */
static const struct entry *newer(const struct pool *pool, enum index_kind kind,
                                 const struct entry *entry)
{
    do
        entry = index_newer(pool, kind, entry);
    while (entry != NULL && entry->damaged);
    return entry;
}

/* Whether an entry has at least keep newer ones in a chain. */
static bool has_newer(const struct pool *pool, enum index_kind kind, const struct entry *entry,
                      unsigned keep)
{
    for (; keep > 0 && entry != NULL; keep--)
        entry = newer(pool, kind, entry);
    return entry != NULL;
}

/* Whether it was the newest of its chain at the commit of that number. */
static bool was_newest(const struct pool *pool, enum index_kind kind, const struct entry *entry,
                       uint64_t number)
{
    const struct entry *next = newer(pool, kind, entry);

    return entry->number <= number && (next == NULL || next->number > number);
}

/* The last settled commit of a directory that is older than a number; 0: there is none. */
static uint64_t settled_before(const struct pool *pool, uint64_t directory, uint64_t number)
{
    const struct entry *entry = index_newest(pool, INDEX_SETTLED, (uint32_t)directory);

    for (; entry != NULL; entry = index_older(pool, INDEX_SETTLED, entry))
        if (entry->number < number && entry->hashes.directory == directory)
            return entry->number;
    return 0;
}

static bool may_go(const struct pool *pool, const struct entry *entry, unsigned keep)
{
    uint64_t settled;

    if (entry->dead || entry->pinned ||
        (!has_newer(pool, INDEX_KEY, entry, keep) && !has_newer(pool, INDEX_PATH, entry, keep)))
        return false;
    settled = settled_before(pool, entry->hashes.directory, UINT64_MAX);
    return !was_newest(pool, INDEX_KEY, entry, settled) ||
           !was_newest(pool, INDEX_PATH, entry, settled);
}

/* ---- the heap ---- */

static void forget(struct room *room)
{
    room->next = 0;
    room->again_count = 0;
}

void room_moved(struct pool *pool)
{
    forget(&pool->spare);
    for (size_t i = 0; i < pool->owner_count; i++)
        forget(&pool->owners[i].spare);
}

/* Where an entry is noted: among all, and its owner's. */
static void rooms_of(struct pool *pool, const struct entry *entry, struct room *rooms[2])
{
    rooms[0] = &pool->spare;
    rooms[1] = &owner_find(pool, entry->owner)->spare;
}

static void swap(uint32_t *one, uint32_t *other)
{
    uint32_t value = *one;

    *one = *other;
    *other = value;
}

static void look_again(const struct pool *pool, struct room *room, const struct entry *entry)
{
    uint32_t place = entry - pool->entries;
    size_t at = room->again_count;

    if (place >= room->next)
        return;
    if (at == room->again_room) {
        size_t more = at * 2 + 64;
        uint32_t *again = at > pool->count ? NULL : realloc(room->again, more * sizeof(*again));

        if (again == NULL) {
            forget(room);
            return;
        }
        room->again = again;
        room->again_room = more;
    }
    room->again[room->again_count++] = place;
    for (; at > 0 && room->again[(at - 1) / 2] > room->again[at]; at = (at - 1) / 2)
        swap(&room->again[at], &room->again[(at - 1) / 2]);
}

static void drop_least(struct room *room)
{
    size_t at = 0, least;

    room->again[0] = room->again[--room->again_count];
    for (;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < room->again_count; child++)
            if (room->again[child] < room->again[least])
                least = child;
        if (least == at)
            return;
        swap(&room->again[at], &room->again[least]);
    }
}

/* ---- what makes entries superfluous ---- */

/* The directory was settled last at that commit, and now at another: what it needed then. */
static void settled_anew(const struct pool *pool, struct room *room, uint64_t directory,
                         uint64_t number)
{
    struct entry *top = index_newest(pool, INDEX_FOLDER, (uint32_t)directory), *entry;

    if (number == 0)
        return; /* nothing was needed */
    for (; top != NULL; top = index_older(pool, INDEX_FOLDER, top)) {
        if (top->hashes.directory != directory)
            continue;
        for (entry = top; entry != NULL && entry->number > number;)
            entry = index_older(pool, INDEX_PATH, entry);
        if (entry != NULL)
            look_again(pool, room, entry);
    }
}

static void added(const struct pool *pool, struct room *room, const struct entry *entry)
{
    if (room->next == 0)
        return;
    for (int kind = INDEX_KEY; kind <= INDEX_PATH; kind++) {
        const struct entry *older = entry;

        for (unsigned i = 0; i < room->keep && older != NULL; i++) {
            older = index_older(pool, kind, older);
            if (older != NULL && older->damaged) {
                forget(room); /* it did not count: others behind it may go as well */
                return;
            }
        }
        if (older != NULL)
            look_again(pool, room, older);
    }
    if (entry->settled)
        settled_anew(pool, room, entry->hashes.directory,
                     settled_before(pool, entry->hashes.directory, entry->number));
}

void room_added(struct pool *pool, const struct entry *entry)
{
    struct room *rooms[2];

    rooms_of(pool, entry, rooms);
    for (int i = 0; i < 2; i++)
        added(pool, rooms[i], entry);
}

void room_removed(struct pool *pool, const struct entry *entry)
{
    struct room *rooms[2];

    rooms_of(pool, entry, rooms);
    for (int i = 0; i < 2; i++)
        if (rooms[i]->next > 0 && entry->settled &&
            settled_before(pool, entry->hashes.directory, UINT64_MAX) == entry->number)
            settled_anew(pool, rooms[i], entry->hashes.directory, entry->number);
}

void room_unpinned(struct pool *pool, const struct entry *entry)
{
    struct room *rooms[2];

    rooms_of(pool, entry, rooms);
    for (int i = 0; i < 2; i++)
        look_again(pool, rooms[i], entry);
}

/* ---- making room ---- */

/* The oldest of the share's that may go; NULL: none may. */
static struct entry *oldest(struct pool *pool, const struct pool_share *share, struct room *room)
{
    for (; room->again_count > 0; drop_least(room))
        if (may_go(pool, &pool->entries[room->again[0]], room->keep))
            return &pool->entries[room->again[0]];
    for (; room->next < pool->count; room->next++)
        if (pool_counts(share, pool->entries[room->next].owner) &&
            may_go(pool, &pool->entries[room->next], room->keep))
            return &pool->entries[room->next];
    return NULL;
}

static void limit(const struct pool *pool, const struct pool_share *share, struct pool_usage *usage)
{
    uint64_t free = pool->data.free * PORTUS_POOL_UNIT;

    usage->left = 0;
    /* A slot for a commit and one for the rename after it, too. */
    if (pool->slots.free < 2 ||
        (!share->everyone && (usage->objects >= share->objects || usage->bytes >= share->bytes)))
        return;
    usage->left = free;
    if (!share->everyone && share->bytes - usage->bytes < free)
        usage->left = share->bytes - usage->bytes;
}

void pool_use(const struct pool *pool, const struct pool_share *share, struct pool_usage *usage)
{
    const struct owner *owner = share->everyone ? NULL : owner_find(pool, share->owner);

    memset(usage, 0, sizeof(*usage));
    if (share->everyone) {
        usage->bytes = (pool->data.units - pool->data.free) * PORTUS_POOL_UNIT;
        usage->objects = pool->count - pool->dead;
    } else {
        if (owner != NULL) {
            usage->bytes = owner->units * PORTUS_POOL_UNIT;
            usage->objects = owner->versions;
        }
        draft_use(pool, share, usage);
        landings_use(pool, share, usage);
    }
    limit(pool, share, usage);
}

static uint64_t left(const struct pool *pool, const struct pool_share *share)
{
    struct pool_usage usage;

    pool_use(pool, share, &usage);
    return usage.left;
}

int64_t pool_make_room(struct pool *pool, uint64_t bytes, unsigned keep)
{
    return pool_make_room_of(pool, &(struct pool_share){.everyone = true}, bytes, keep);
}

int64_t pool_make_room_of(struct pool *pool, const struct pool_share *share, uint64_t bytes,
                          unsigned keep)
{
    const struct entry *entry;
    struct owner *owner;
    struct room *room;
    uint64_t may;
    int error = 0;

    if (!pool->map->writable)
        return -EROFS;
    keep = keep > 0 ? keep : 1;
    owner = share->everyone ? NULL : owner_find(pool, share->owner);
    if (!share->everyone && owner == NULL)
        return (int64_t)left(pool, share); /* nothing of theirs can go */
    room = owner != NULL ? &owner->spare : &pool->spare;
    if (keep < room->keep)
        forget(room); /* what was superfluous then is noted; more is now */
    room->keep = keep;
    while (error == 0 && ((may = left(pool, share)) < bytes || may == 0)) {
        struct pool_version version;

        entry = oldest(pool, share, room);
        if (entry == NULL)
            break;
        version = (struct pool_version){.number = entry->number, .place = entry->slot};
        error = pool_remove(pool, &version);
    }
    return error != 0 ? error : (int64_t)left(pool, share);
}
