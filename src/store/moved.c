/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moved.c -- files that have another name, as an agent lists them
 *
 * Where the store is shared it has no right to look itself (follow.c). What an agent says
 * concerns the objects of its user alone. Done in small parts: a listing may be long, and
 * others are served meanwhile.
 */
#include "store/moved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/host.h"
#include "common/listing.h"
#include "store/state.h"

#define A_TURN 16

struct object {
    struct pool_key key;
    const char *path; /* that it has now */
    uint64_t number;  /* of its newest version, and whether that is settled */
    bool settled;
};

struct moved {
    struct listing listing;
    uint32_t uid;
    uint8_t machine[16]; /* zeros: this one */
    size_t at;           /* in the listing */
    unsigned seen;
    bool gathered;
    struct object *object; /* what the pool knows by another path */
    size_t count, next;
};

int moved_open(struct moved **out, int fd, uint32_t uid, const uint8_t machine[16])
{
    struct moved *moved = calloc(1, sizeof(*moved));
    int error = moved == NULL ? -ENOMEM : listing_load(&moved->listing, fd);

    if (error != 0) {
        free(moved);
        return error;
    }
    moved->uid = uid;
    if (machine != NULL)
        memcpy(moved->machine, machine, sizeof(moved->machine));
    *out = moved;
    return 0;
}

void moved_close(struct moved *moved)
{
    if (moved == NULL)
        return;
    listing_free(&moved->listing);
    free(moved->object);
    free(moved);
}

static int by_path(const void *one, const void *other)
{
    return strcmp(((const struct object *)one)->path, ((const struct object *)other)->path);
}

static bool gather(struct store *store, struct moved *moved)
{
    const char *path;
    const struct listing_entry *entry =
        moved->seen++ < LISTING_FILES ? listing_next(&moved->listing, &moved->at, &path) : NULL;
    struct pool_version version;
    struct object *more;

    if (entry == NULL) {
        moved->gathered = true;
        if (moved->count > 0)
            qsort(moved->object, moved->count, sizeof(*moved->object), by_path);
        return moved->count > 0;
    }
    struct pool_key key = store_key_of(entry, moved->uid);
    host_mix(key.file_system, moved->machine);
    if (entry->handle_bytes == 0 || pool_newest(store->pool, &key, &version) != 0 ||
        strcmp(version.attributes.path, path) == 0)
        return true;
    more = realloc(moved->object, (moved->count + 1) * sizeof(*more));
    if (more == NULL)
        return true;
    moved->object = more;
    more[moved->count++] = (struct object){key, path, version.number, version.attributes.settled};
    return true;
}

static size_t directory(const char *path)
{
    return (size_t)(strrchr(path, '/') - path);
}

static bool beside(const struct object *one, const struct object *other)
{
    size_t length = directory(one->path);

    return length == directory(other->path) && memcmp(one->path, other->path, length) == 0;
}

/* Those that have moved together are a whole set where they were one: the last one says so. */
static enum pool_settling settling(const struct moved *moved, size_t i)
{
    const struct object *object = &moved->object[i], *newest = object;
    bool last = i + 1 == moved->count || !beside(object, object + 1), alone = true;

    for (size_t j = i; j-- > 0 && beside(object, &moved->object[j]);) {
        alone = false;
        if (moved->object[j].number > newest->number)
            newest = &moved->object[j];
        if (!last)
            break;
    }
    if (!last)
        return POOL_UNSETTLED;
    if (alone)
        return POOL_SETTLED_AS_IT_WAS;
    return newest->settled ? POOL_SETTLED : POOL_UNSETTLED;
}

bool moved_step(struct store *store, struct moved *moved)
{
    uint64_t number;

    for (unsigned i = 0; i < A_TURN; i++) {
        if (!moved->gathered) {
            if (!gather(store, moved))
                return false;
            continue;
        }
        if (moved->next == moved->count)
            return false;
        pool_rename(store->pool, &moved->object[moved->next].key, moved->object[moved->next].path,
                    settling(moved, moved->next), &number);
        moved->next++;
    }
    return true;
}
