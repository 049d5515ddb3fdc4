/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room.c -- which versions go when room is needed
 *
 * A version is superseded by a newer one of its object, or of its path: programs that
 * write another file and rename it over the old one never have two versions of one
 * object. Kept are the newest of both, pinned ones, and what restoring a directory
 * needs: with s the last settled commit of a directory and job, each version that was
 * the newest of its object and path at s.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/pool_private.h"

/* From a hash to what is known of its group. */
struct group {
    uint64_t hash;
    uint64_t number; /* of the version in it that was seen last */
    uint32_t count;  /* seen so far */
};

struct groups {
    struct group *places;
    uint64_t mask;
};

static int groups_open(struct groups *groups, size_t count)
{
    uint64_t places = 16;

    while (places < 2 * count)
        places *= 2;
    groups->mask = places - 1;
    groups->places = calloc(places, sizeof(*groups->places));
    return groups->places == NULL ? -ENOMEM : 0;
}

/* An empty one (count 0) if nothing of that hash was seen. */
static struct group *group_of(struct groups *groups, uint64_t hash)
{
    for (uint64_t i = hash & groups->mask;; i = (i + 1) & groups->mask) {
        struct group *group = &groups->places[i];

        if (group->count == 0)
            group->hash = hash;
        if (group->hash == hash)
            return group;
    }
}

static void see(struct group *group, uint64_t number)
{
    group->number = number;
    group->count++;
}

/* Sets spare[i] for each entry that may go. Newest first: what was seen is newer. */
static void choose(const struct pool *pool, struct groups *keys, struct groups *paths,
                   struct groups *directories, unsigned keep, bool *spare)
{
    for (size_t i = pool->count; i-- > 0;) {
        const struct entry *entry = &pool->entries[i];
        struct group *directory = group_of(directories, entry->hashes.directory);

        if (!entry->dead && entry->settled && directory->count == 0)
            see(directory, entry->number);
    }
    for (size_t i = pool->count; i-- > 0;) {
        const struct entry *entry = &pool->entries[i];
        struct group *key = group_of(keys, entry->hashes.key);
        struct group *path = group_of(paths, entry->hashes.path);
        const struct group *directory = group_of(directories, entry->hashes.directory);
        bool needed;

        if (entry->dead)
            continue;
        needed = directory->count > 0 && entry->number <= directory->number &&
                 (key->count == 0 || key->number > directory->number) &&
                 (path->count == 0 || path->number > directory->number);
        spare[i] = (key->count >= keep || path->count >= keep) && !needed && !entry->pinned;
        see(key, entry->number);
        see(path, entry->number);
    }
}

/* A slot for a commit and one for the rename after it, too. */
static bool has_room(const struct pool *pool, uint64_t bytes)
{
    return pool->data.free * PORTUS_POOL_UNIT >= bytes && pool->slots.free >= 2;
}

static int remove_spare(struct pool *pool, uint64_t bytes, const uint64_t *numbers, size_t count)
{
    int error = 0;

    for (size_t i = 0; i < count && error == 0; i++) {
        const struct entry *entry = pool_find(pool, numbers[i]);
        struct pool_version version = {.number = numbers[i], .place = entry->slot};

        if (has_room(pool, bytes))
            break;
        error = pool_remove(pool, &version);
    }
    return error;
}

int64_t pool_make_room(struct pool *pool, uint64_t bytes, unsigned keep)
{
    struct groups keys = {0}, paths = {0}, directories = {0};
    uint64_t *numbers = NULL;
    bool *spare = NULL;
    size_t count = 0;
    int error = 0;

    if (!pool->map->writable)
        return -EROFS;
    if (has_room(pool, bytes) || pool->count == 0)
        return pool->data.free * PORTUS_POOL_UNIT;
    spare = calloc(pool->count, sizeof(*spare));
    numbers = calloc(pool->count, sizeof(*numbers));
    if (spare == NULL || numbers == NULL || groups_open(&keys, pool->count) != 0 ||
        groups_open(&paths, pool->count) != 0 || groups_open(&directories, pool->count) != 0)
        error = -ENOMEM;
    if (error == 0) {
        choose(pool, &keys, &paths, &directories, keep > 0 ? keep : 1, spare);
        for (size_t i = 0; i < pool->count; i++)
            if (spare[i])
                numbers[count++] = pool->entries[i].number;
        error = remove_spare(pool, bytes, numbers, count);
    }
    free(spare);
    free(numbers);
    free(keys.places);
    free(paths.places);
    free(directories.places);
    return error != 0 ? error : (int64_t)(pool->data.free * PORTUS_POOL_UNIT);
}
