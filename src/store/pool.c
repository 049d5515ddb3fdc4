/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c -- a pool: made, opened, looked at
 *
 * Not here: what opening finds (recover.c), drafts (draft.c), what changes committed
 * versions (keep.c), reading their bytes (read.c).
 */
#include "store/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/log.h"
#include "store/pool_private.h"

#define OBJECT_BYTES (1ull << 20) /* a slot for so many bytes, if nothing else is asked for */
#define SLOTS_LEAST 64
#define SLOTS_USUAL (1ull << 20)
#define DATA_LEAST (64u << 10)

static int random_bytes(const struct map *map, void *bytes, size_t length)
{
    if (getrandom(bytes, length, 0) == (ssize_t)length)
        return 0;
    log_error("%s: no random numbers: %s: left as it is", map->path, strerror(errno));
    return -EIO;
}

/* ---- making ---- */

static uint64_t round_page(uint64_t bytes)
{
    return (bytes + PORTUS_POOL_PAGE - 1) & -(uint64_t)PORTUS_POOL_PAGE;
}

static int lay_out(const struct map *map, struct portus_pool_superblock *super, uint64_t size,
                   uint64_t objects)
{
    struct timespec now;

    if (objects == 0) {
        objects = size / OBJECT_BYTES;
        objects = objects < SLOTS_LEAST ? SLOTS_LEAST : objects;
        objects = objects > SLOTS_USUAL ? SLOTS_USUAL : objects;
    }
    if (objects > PORTUS_POOL_SLOTS) {
        log_error("%s: no pool holds %llu versions", map->path, (unsigned long long)objects);
        return -EINVAL;
    }
    memset(super, 0, sizeof(*super));
    super->magic = PORTUS_POOL_MAGIC;
    super->version = PORTUS_POOL_VERSION;
    super->bytes = sizeof(*super);
    super->generation = 1;
    super->pool_bytes = size & -(uint64_t)PORTUS_POOL_PAGE;
    super->slots = objects;
    super->catalogue = PORTUS_POOL_SECOND + PORTUS_POOL_PAGE;
    super->second_catalogue =
        super->catalogue + round_page(objects * sizeof(struct portus_pool_slot));
    super->data = 2 * super->second_catalogue - super->catalogue;
    if (super->pool_bytes < super->data + DATA_LEAST) {
        log_error("%s: a pool for %llu versions takes %llu bytes at least", map->path,
                  (unsigned long long)objects, (unsigned long long)(super->data + DATA_LEAST));
        return -ENOSPC;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    super->created = now.tv_sec * 1000000000ll + now.tv_nsec;
    if (random_bytes(map, super->uuid, sizeof(super->uuid)) != 0)
        return -EIO;
    super->uuid[6] = (super->uuid[6] & 0x0f) | 0x40; /* RFC 4122, of random numbers */
    super->uuid[8] = (super->uuid[8] & 0x3f) | 0x80;
    return 0;
}

/* Whether there is a pool, whole or not. */
static bool holds_pool(struct map *map)
{
    for (int copy = 0; copy < 2; copy++) {
        uint64_t magic;

        if (map_load(map, super_offset(copy), &magic) == 0 && magic == PORTUS_POOL_MAGIC)
            return true;
    }
    return false;
}

int pool_create_map(struct map *map, uint64_t size, uint64_t objects, bool force, bool fresh)
{
    struct portus_pool_superblock super;
    int error = lay_out(map, &super, size != 0 ? size : map->size, objects);

    if (error == 0 && super.pool_bytes > map->size)
        error = -EFBIG;
    if (error == 0 && !force && holds_pool(map)) {
        log_error("%s: holds a pool already: left as it is", map->path);
        error = -EEXIST;
    }
    /* What was there is no pool any more before anything of it is overwritten. */
    for (int copy = 0; copy < 2 && error == 0 && !fresh; copy++) {
        error = map_write(map, super_offset(copy), NULL, PORTUS_POOL_PAGE);
        if (error == 0)
            error = map_fence(map);
    }
    if (error == 0 && !fresh)
        error = map_write(map, super.catalogue, NULL, super.data - super.catalogue);
    if (error == 0)
        error = map_fence(map);
    if (error == 0)
        error = super_write(map, &super, 0);
    return error;
}

int pool_create(const char *path, uint64_t size, uint64_t objects, bool force)
{
    struct map *map;
    bool fresh;
    int error = map_create(&map, path, size, force, &fresh);

    if (error != 0)
        return error;
    error = pool_create_map(map, size, objects, force, fresh);
    if (error == 0)
        error = map_publish(map);
    map_close(map);
    return error;
}

/* ---- opening ---- */

int pool_open_map(struct pool **out, struct map *map, bool writable)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    int error = -ENOMEM;

    map->writable = map->writable && writable;
    if (pool == NULL) {
        map_close(map);
        return error;
    }
    pool->map = map;
    pool->cache = calloc(1, sizeof(*pool->cache));
    if (pool->cache != NULL)
        error = random_bytes(map, pool->seed, sizeof(pool->seed));
    if (error == 0)
        error = recover(pool);
    if (error != 0) {
        pool_close(pool);
        return error;
    }
    *out = pool;
    return 0;
}

int pool_open(struct pool **out, const char *path, bool writable)
{
    struct map *map;
    int error = map_open(&map, path, writable);

    return error != 0 ? error : pool_open_map(out, map, writable);
}

void pool_close(struct pool *pool)
{
    if (pool == NULL)
        return;
    for (size_t i = 0; i < pool->count; i++)
        free(pool->entries[i].text);
    free(pool->entries);
    index_close(&pool->index);
    free(pool->spare.again);
    owner_close(pool);
    free(pool->damaged);
    space_close(&pool->data);
    space_close(&pool->slots);
    if (pool->cache != NULL) {
        body_free(&pool->cache->body);
        free(pool->cache->bytes);
    }
    free(pool->cache);
    map_close(pool->map);
    free(pool);
}

void pool_look(const struct pool *pool, struct pool_state *state)
{
    memset(state, 0, sizeof(*state));
    memcpy(state->uuid, pool->super.uuid, sizeof(state->uuid));
    state->size = pool->super.pool_bytes;
    state->free = pool->data.free * PORTUS_POOL_UNIT;
    state->slots = pool->slots.units;
    state->slots_free = pool->slots.free;
    state->newest = pool->newest;
    state->repaired = pool->repaired;
    state->damaged = pool->damaged_count;
    state->durable = pool->map->durable;
    state->kind = pool->map->kind;
}

/* ---- entries ---- */

uint64_t pool_unit(const struct pool *pool, uint64_t place)
{
    return (place - pool->bounds.begin) / PORTUS_POOL_UNIT;
}

size_t pool_place(const struct pool *pool, uint64_t number)
{
    size_t low = 0, high = pool->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pool->entries[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct entry *pool_find(const struct pool *pool, uint64_t number)
{
    size_t place = pool_place(pool, number);

    if (place == pool->count || pool->entries[place].number != number || pool->entries[place].dead)
        return NULL;
    return &pool->entries[place];
}

int pool_newest_entry(const struct pool *pool, const struct pool_key *key, struct body *body,
                      struct entry **found)
{
    struct entry *entry = index_newest(pool, INDEX_KEY, body_hash_key(key, pool->seed));

    for (; entry != NULL; entry = index_older(pool, INDEX_KEY, entry)) {
        int error = pool_body(pool, entry, body);

        if (error != 0)
            return error;
        if (!body_has_key(body, key))
            continue; /* of the same hash */
        *found = entry;
        return 0;
    }
    return -ENOENT;
}

int pool_room(struct pool *pool)
{
    size_t room = pool->room * 2 + 64;
    struct entry *more;

    if (pool->count == pool->room) {
        more = realloc(pool->entries, room * sizeof(*more));
        if (more == NULL)
            return -ENOMEM;
        pool->entries = more;
        pool->room = room;
    }
    return owner_room(pool);
}

struct entry *pool_append(struct pool *pool, const struct entry *entry)
{
    pool->entries[pool->count] = *entry;
    return &pool->entries[pool->count++];
}

void pool_bury(struct pool *pool, struct entry *entry)
{
    room_removed(pool, entry);
    index_remove(pool, entry);
    owner_remove(pool, entry);
    if (pool->cache->number == entry->number)
        pool->cache->number = 0;
    free(entry->text);
    entry->text = NULL;
    entry->dead = true;
    pool->dead++;
}

int pool_stands(const struct pool *pool, const struct entry *entry)
{
    uint64_t word;
    int error = map_load(pool->map, slot_offset(&pool->super, entry->slot, entry->copy), &word);

    if (error != 0)
        return error;
    return word == slot_word(pool->super.uuid, entry->slot, entry->number) ? 0 : -ESTALE;
}

int pool_body(const struct pool *pool, const struct entry *entry, struct body *body)
{
    const char *why;
    int stale, error = body_load(body, pool->map, &pool->bounds, entry->number, entry->body,
                                 entry->body_bytes, entry->body_crc, &why);

    if (error == -ENOMEM)
        return error;
    stale = pool_stands(pool, entry);
    if (stale != 0)
        return stale;
    if (error != 0 && !entry->damaged) /* else it was said */
        log_error("%s: version %llu is damaged: %s", pool->map->path,
                  (unsigned long long)entry->number, why);
    return error;
}

/* ---- what others see ---- */

static int describe(const struct pool *pool, struct entry *entry, struct body *body,
                    struct pool_version *version)
{
    const struct portus_pool_body *head;
    int error = pool_body(pool, entry, body);

    if (error != 0)
        return error;
    head = body->head;
    if (entry->text == NULL) {
        size_t bytes = (size_t)head->path_bytes + head->job_bytes;

        entry->text = malloc(bytes);
        if (entry->text == NULL)
            return -ENOMEM;
        memcpy(entry->text, body->path, bytes);
    }
    memset(version, 0, sizeof(*version));
    version->number = entry->number;
    version->key.owner = head->owner;
    memcpy(version->key.file_system, head->file_system, sizeof(head->file_system));
    version->key.handle_type = head->handle_type;
    version->key.handle_bytes = head->handle_bytes;
    memcpy(version->key.handle, body->handle, head->handle_bytes);
    version->attributes = body_attributes(head, entry->text, entry->text + head->path_bytes);
    version->stored = entry->units * PORTUS_POOL_UNIT;
    version->pinned = entry->pinned;
    version->damaged = entry->damaged;
    version->place = entry->slot;
    return 0;
}

/* Those of a share from a commit on. */
static int each_from(const struct pool *pool, const struct pool_share *share, uint64_t number,
                     int (*each)(const struct pool_version *, void *), void *argument)
{
    struct pool_version version;
    struct body body = {0};
    int result = 0;

    for (size_t i = pool_place(pool, number); i < pool->count && result == 0; i++) {
        struct entry *entry = &pool->entries[i];
        int error = entry->dead || !pool_counts(share, entry->owner)
                        ? -ENOENT
                        : describe(pool, entry, &body, &version);

        if (error == 0)
            result = each(&version, argument);
        else if (error == -ENOMEM)
            result = error;
    }
    body_free(&body);
    return result;
}

int pool_each_after(const struct pool *pool, uint64_t number,
                    int (*each)(const struct pool_version *, void *), void *argument)
{
    return each_from(pool, &(struct pool_share){.everyone = true}, number + 1, each, argument);
}

int pool_each_of(const struct pool *pool, const struct pool_share *share,
                 int (*each)(const struct pool_version *, void *), void *argument)
{
    return each_from(pool, share, 0, each, argument);
}

int pool_each(const struct pool *pool, int (*each)(const struct pool_version *, void *),
              void *argument)
{
    return pool_each_after(pool, 0, each, argument);
}

/* Whether an entry is in the directory of path: hashes of folders are short. */
static bool is_in(const struct pool *pool, struct entry *entry, const char *path,
                  struct pool_version *version, struct body *body)
{
    size_t length = strrchr(path, '/') - path;
    const char *other;

    if (describe(pool, entry, body, version) != 0)
        return false;
    other = version->attributes.path;
    return strncmp(path, other, length + 1) == 0 && strchr(other + length + 1, '/') == NULL;
}

int pool_each_in(const struct pool *pool, const struct pool_share *share, const char *path,
                 enum pool_which which, int (*each)(const struct pool_version *, void *),
                 void *argument)
{
    enum index_kind kind = which == POOL_WITH_SETTLED ? INDEX_SETTLED : INDEX_FOLDER;
    struct body body = {0};
    struct pool_version version;
    int result = 0;

    for (struct entry *top = index_newest(pool, kind, body_hash_folder(path, pool->seed));
         top != NULL && result == 0; top = index_older(pool, kind, top))
        for (struct entry *entry = top; entry != NULL && result == 0;
             entry = which == POOL_ALL ? index_older(pool, INDEX_PATH, entry) : NULL)
            if (pool_counts(share, entry->owner) && is_in(pool, entry, path, &version, &body))
                result = each(&version, argument);
    body_free(&body);
    return result;
}

int pool_get(const struct pool *pool, uint64_t number, struct pool_version *version)
{
    struct entry *entry = pool_find(pool, number);
    struct body body = {0};
    int error = entry == NULL ? -ENOENT : describe(pool, entry, &body, version);

    body_free(&body);
    return error;
}

int pool_newest(const struct pool *pool, const struct pool_key *key, struct pool_version *version)
{
    struct body body = {0};
    struct entry *entry;
    int error =
        key->handle_bytes > POOL_HANDLE_MAX ? -EINVAL : pool_newest_entry(pool, key, &body, &entry);

    if (error == 0)
        error = describe(pool, entry, &body, version);
    body_free(&body);
    return error;
}
