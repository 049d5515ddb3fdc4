/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keep.c -- what changes committed versions, all but their bytes: rename, pin, removal
 *
 * Not here: which versions may go when room is needed (room.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

static int may_write(const struct pool *pool)
{
    return pool->map->writable ? pool->map->failed : -EROFS;
}

static struct entry *find(const struct pool *pool, const struct pool_version *version)
{
    struct entry *entry = pool_find(pool, version->number);

    return entry != NULL && entry->slot == version->place ? entry : NULL;
}

/* Dead entries go when they are the greater part. */
static void compact(struct pool *pool)
{
    size_t kept = 0;

    if (pool->dead <= pool->count / 2)
        return;
    for (size_t i = 0; i < pool->count; i++)
        if (!pool->entries[i].dead)
            pool->entries[kept++] = pool->entries[i];
    pool->count = kept;
    pool->dead = 0;
    index_build(pool);
    room_moved(pool);
}

static void give_units(struct pool *pool, uint64_t place, uint64_t bytes)
{
    space_give(&pool->data, pool_unit(pool, place), body_units(bytes));
}

/* ---- removal ---- */

int pool_remove(struct pool *pool, const struct pool_version *version)
{
    struct entry *entry = find(pool, version);
    struct body body = {0};
    int known, error = may_write(pool);

    if (error != 0)
        return error;
    if (entry == NULL)
        return -ESTALE;
    known = pool_body(pool, entry, &body);
    error = slot_retire(pool->map, &pool->super, entry->slot);
    if (error == 0) {
        /* What a body that cannot be read any more named is found free at the next opening. */
        for (uint64_t i = 0; known == 0 && i < body.head->extents; i++)
            give_units(pool, body.extents[i].place, body.extents[i].length);
        give_units(pool, entry->body, entry->body_bytes);
        space_give(&pool->slots, entry->slot, 1);
        pool_bury(pool, entry);
        compact(pool);
    }
    body_free(&body);
    return error;
}

static bool body_lost(const struct pool *pool, const struct entry *entry, struct body *body)
{
    int error = pool_body(pool, entry, body);

    return error == -EUCLEAN || error == -EIO;
}

int pool_remove_damaged(struct pool *pool)
{
    struct body body = {0};
    int error = may_write(pool);

    while (error == 0 && pool->damaged_count > 0) {
        const struct damaged *damaged = &pool->damaged[pool->damaged_count - 1];

        error = slot_retire(pool->map, &pool->super, damaged->slot);
        if (error != 0)
            break;
        space_give(&pool->data, damaged->first, damaged->units);
        space_give(&pool->slots, damaged->slot, 1);
        pool->damaged_count--;
    }
    for (size_t i = pool->count; i-- > 0 && error == 0;) {
        const struct entry *entry = &pool->entries[i];
        struct pool_version version = {.number = entry->number, .place = entry->slot};

        if (!entry->dead && entry->damaged && body_lost(pool, entry, &body)) {
            error = pool_remove(pool, &version);
            i = pool->count; /* they may have moved */
        }
    }
    body_free(&body);
    return error;
}

/* ---- marks ---- */

int pool_flag(struct pool *pool, const struct entry *entry, uint32_t flag, bool on)
{
    struct portus_pool_slot copies[2];
    struct portus_pool_marks marks;
    int error = may_write(pool);

    for (int copy = 0; copy < 2 && error == 0; copy++)
        error = map_read(pool->map, slot_offset(&pool->super, entry->slot, copy), &copies[copy],
                         sizeof(copies[copy]));
    if (error != 0)
        return error;
    slot_marks(pool->super.uuid, entry->slot, entry->number, copies, &marks);
    marks.flags &= ~flag;
    marks.flags |= on ? flag : 0;
    return slot_mark(pool->map, &pool->super, entry->slot, &marks);
}

int pool_pin(struct pool *pool, const struct pool_version *version, bool pinned)
{
    struct entry *entry = find(pool, version);
    int error = may_write(pool);

    if (error != 0)
        return error;
    if (entry == NULL)
        return -ESTALE;
    if (entry->pinned == pinned)
        return 0;
    error = pool_flag(pool, entry, PORTUS_POOL_PINNED, pinned);
    if (error == 0)
        entry->pinned = pinned;
    if (error == 0 && !pinned)
        room_unpinned(pool, entry);
    return error;
}

/* ---- rename ---- */

/* Whether nothing was committed in the directory after a number. */
static bool is_last(const struct pool *pool, uint64_t number, uint64_t directory)
{
    for (const struct entry *entry = index_newest(pool, INDEX_FOLDER, (uint32_t)directory);
         entry != NULL; entry = index_older(pool, INDEX_FOLDER, entry))
        if (entry->number > number && entry->hashes.directory == directory)
            return false;
    return true;
}

/* The body of `old` with another path. */
static int with_path(const struct body *old, const char *path, struct body *body)
{
    const struct portus_pool_body *head = old->head;
    struct pool_key key = {
        .owner = head->owner, .handle_type = head->handle_type, .handle_bytes = head->handle_bytes};
    struct pool_attributes attributes = body_attributes(head, path, old->job);
    int error;

    memcpy(key.file_system, head->file_system, sizeof(key.file_system));
    memcpy(key.handle, old->handle, head->handle_bytes);
    error = body_make(body, &key, &attributes, head->extents);
    if (error == 0)
        memcpy(body->extents, old->extents, head->extents * sizeof(*body->extents));
    return error;
}

/* drained: its file, or NULL: it may not be. */
static int publish_anew(struct pool *pool, const struct pool_key *key, const char *path,
                        enum pool_settling settling, const struct pool_attributes *drained,
                        uint64_t *number)
{
    struct body old = {0}, renamed = {0};
    struct entry *entry = NULL;
    uint64_t taken = 0;
    bool committed;
    int error = key->handle_bytes > POOL_HANDLE_MAX ? -EINVAL : may_write(pool);

    if (error == 0) {
        error = pool_newest_entry(pool, key, &old, &entry);
        taken = error == 0 ? entry->number : 0;
    }
    if (error == 0)
        error = with_path(&old, path, &renamed);
    if (error == 0) {
        /* The state of a directory that was whole is whole still, if this is all that is new. */
        if (settling == POOL_UNSETTLED ||
            (settling == POOL_SETTLED_AS_IT_WAS &&
             (!is_last(pool, taken, entry->hashes.directory) ||
              !is_last(pool, taken, body_hash(&renamed, pool->seed).directory))))
            renamed.head->flags &= ~PORTUS_POOL_SETTLED;
        else if (settling == POOL_SETTLED)
            renamed.head->flags |= PORTUS_POOL_SETTLED;
        if (drained != NULL)
            renamed.head->flags &= ~PORTUS_POOL_EARLY;
        /* An earlier state of it is known by that, as a power cut may bring one back. */
        if (drained != NULL && drained->size == renamed.head->size &&
            drained->mtime == renamed.head->mtime)
            renamed.head->ctime = drained->ctime;
        error = pool_publish(pool, &renamed, taken, entry->pinned, &committed);
    }
    if (error == 0) {
        *number = pool->newest;
        entry = pool_find(pool, taken); /* the array may have moved */
        if (slot_retire(pool->map, &pool->super, entry->slot) == 0) {
            give_units(pool, entry->body, entry->body_bytes);
            space_give(&pool->slots, entry->slot, 1);
        } else {
            log_warn("%s: version %llu has taken the place of %llu, which goes at the next opening",
                     pool->map->path, (unsigned long long)*number, (unsigned long long)taken);
        }
        pool_bury(pool, entry);
        compact(pool);
    }
    body_free(&old);
    body_free(&renamed);
    return error;
}

int pool_rename(struct pool *pool, const struct pool_key *key, const char *path,
                enum pool_settling settling, uint64_t *number)
{
    return publish_anew(pool, key, path, settling, NULL, number);
}

int pool_drained(struct pool *pool, const struct pool_key *key, const struct pool_attributes *file,
                 uint64_t *number)
{
    return publish_anew(pool, key, file->path, file->settled ? POOL_SETTLED : POOL_UNSETTLED, file,
                        number);
}
