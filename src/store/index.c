/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.c -- hash tables of entries, whose chains are links beside the entries
 *
 * A chain holds all entries whose hashes begin in the same place, newest first; who walks
 * it passes over those of another hash. Hashes are keyed (siphash.h), so nobody can make
 * chains long on purpose. An entry is unlinked at once when it dies: chains hold no dead
 * ones, however often a file is saved.
 *
 * Not here: what is asked (pool.c, keep.c, room.c). Two of the same hash are taken for the same;
 * where that would show the caller compares the texts.
 */
#include "store/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/pool_private.h"

#define AHEAD 16 /* entries whose chains are fetched while others are linked */

static uint64_t hash_of(enum index_kind kind, const struct entry *entry)
{
    if (kind == INDEX_KEY)
        return entry->hashes.key;
    return kind == INDEX_PATH ? entry->hashes.path : (uint32_t)entry->hashes.directory;
}

static uint32_t *head_of(const struct index *index, enum index_kind kind, uint64_t hash)
{
    return &index->heads[kind][hash & index->mask];
}

void index_close(struct index *index)
{
    for (int kind = 0; kind < INDEX_KINDS; kind++) {
        free(index->heads[kind]);
        free(index->links[kind]);
    }
    memset(index, 0, sizeof(*index));
}

int index_room(struct pool *pool)
{
    struct index more = {.mask = 63, .room = pool->room};

    if (pool->index.room >= pool->room)
        return 0;
    while (2 * (more.mask + 1) < more.room)
        more.mask = 2 * more.mask + 1;
    for (int kind = 0; kind < INDEX_KINDS; kind++) {
        more.heads[kind] = malloc((more.mask + 1) * sizeof(*more.heads[kind]));
        more.links[kind] = malloc(more.room * sizeof(*more.links[kind]));
        if (more.heads[kind] == NULL || more.links[kind] == NULL) {
            index_close(&more);
            return -ENOMEM;
        }
    }
    index_close(&pool->index);
    pool->index = more;
    index_build(pool);
    return 0;
}

/* ---- chains ---- */

static void put(struct pool *pool, enum index_kind kind, uint32_t place, uint64_t hash)
{
    uint32_t *head = head_of(&pool->index, kind, hash);
    struct index_link *links = pool->index.links[kind];

    links[place] = (struct index_link){.older = *head};
    if (*head != 0)
        links[*head - 1].newer = place + 1;
    *head = place + 1;
}

static void take(struct pool *pool, enum index_kind kind, uint32_t place, uint64_t hash)
{
    struct index_link *links = pool->index.links[kind], *link = &links[place];

    if (link->newer != 0)
        links[link->newer - 1].older = link->older;
    else
        *head_of(&pool->index, kind, hash) = link->older;
    if (link->older != 0)
        links[link->older - 1].newer = link->newer;
}

/* From a place + 1 on: the first entry of that hash. */
static struct entry *first(const struct pool *pool, enum index_kind kind, uint32_t at,
                           uint64_t hash, bool newer)
{
    const struct index_link *links = pool->index.links[kind];

    for (; at != 0; at = newer ? links[at - 1].newer : links[at - 1].older)
        if (hash_of(kind, &pool->entries[at - 1]) == hash)
            return &pool->entries[at - 1];
    return NULL;
}

struct entry *index_newest(const struct pool *pool, enum index_kind kind, uint64_t hash)
{
    if (pool->index.room == 0)
        return NULL;
    return first(pool, kind, *head_of(&pool->index, kind, hash), hash, false);
}

struct entry *index_older(const struct pool *pool, enum index_kind kind, const struct entry *entry)
{
    const struct index_link *link = &pool->index.links[kind][entry - pool->entries];

    return first(pool, kind, link->older, hash_of(kind, entry), false);
}

struct entry *index_newer(const struct pool *pool, enum index_kind kind, const struct entry *entry)
{
    const struct index_link *link = &pool->index.links[kind][entry - pool->entries];

    return first(pool, kind, link->newer, hash_of(kind, entry), true);
}

/* ---- entries ---- */

void index_add(struct pool *pool, const struct entry *entry)
{
    uint32_t place = entry - pool->entries;
    const struct entry *before = index_newest(pool, INDEX_PATH, entry->hashes.path);

    if (before != NULL)
        take(pool, INDEX_FOLDER, before - pool->entries, hash_of(INDEX_FOLDER, before));
    put(pool, INDEX_KEY, place, entry->hashes.key);
    put(pool, INDEX_PATH, place, entry->hashes.path);
    put(pool, INDEX_FOLDER, place, hash_of(INDEX_FOLDER, entry));
    if (entry->settled)
        put(pool, INDEX_SETTLED, place, hash_of(INDEX_FOLDER, entry));
}

void index_remove(struct pool *pool, const struct entry *entry)
{
    uint32_t place = entry - pool->entries;
    const struct entry *older = index_older(pool, INDEX_PATH, entry);

    if (index_newer(pool, INDEX_PATH, entry) == NULL) {
        take(pool, INDEX_FOLDER, place, hash_of(INDEX_FOLDER, entry));
        if (older != NULL)
            put(pool, INDEX_FOLDER, older - pool->entries, hash_of(INDEX_FOLDER, older));
    }
    take(pool, INDEX_KEY, place, entry->hashes.key);
    take(pool, INDEX_PATH, place, entry->hashes.path);
    if (entry->settled)
        take(pool, INDEX_SETTLED, place, hash_of(INDEX_FOLDER, entry));
}

void index_build(struct pool *pool)
{
    for (int kind = 0; kind < INDEX_KINDS; kind++)
        memset(pool->index.heads[kind], 0,
               (pool->index.mask + 1) * sizeof(*pool->index.heads[kind]));
    for (size_t i = 0; i < pool->count; i++) {
        if (i + AHEAD < pool->count)
            for (int kind = 0; kind < INDEX_SETTLED; kind++)
                __builtin_prefetch(
                    head_of(&pool->index, kind, hash_of(kind, &pool->entries[i + AHEAD])), 1);
        if (!pool->entries[i].dead)
            index_add(pool, &pool->entries[i]);
    }
}
