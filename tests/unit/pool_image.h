/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_image.h -- pools in plain memory, for tests: made, opened, filled, summed up
 */
#ifndef POOL_IMAGE_H
#define POOL_IMAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef POOL_IMAGE_ALONE /* not in a cmocka test */
#define assert_true(what) ((what) ? (void)0 : abort())
#define assert_int_equal(one, other) assert_true((one) == (other))
#else
#include <cmocka.h>
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/copy.h"
#include "common/log.h"
#include "store/pool.h"
#include "store/pool_private.h"

#define IMAGE_DATA (PORTUS_POOL_SECOND + PORTUS_POOL_PAGE + 2 * PORTUS_POOL_PAGE) /* 32 slots */
#define MAX_FILE (256u << 10)

static inline uint64_t random64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du;
}

static inline uint64_t below(uint64_t *state, uint64_t limit)
{
    return (random64(state) >> 11) % limit;
}

/* ---- a backend that only stores ---- */

static inline void image_copy(void *self, char *to, const void *from, size_t length)
{
    if (from != NULL)
        memcpy(to, from, length);
    else
        memset(to, 0, length);
}

static inline uint32_t image_copy_crc(void *self, char *to, const void *from, size_t length,
                                      uint32_t crc)
{
    return portus_copy_crc(to, from, length, crc);
}

static inline void image_store(void *self, uint64_t *to, uint64_t value)
{
    *to = value;
}

static inline void image_flush(void *self, char *at, size_t length)
{
}

static inline int image_fence(void *self)
{
    return 0;
}

static const struct map_backend image_backend = {image_copy, image_copy_crc, image_store,
                                                 image_flush, image_fence};

/* ---- pools ---- */

static inline void image_make(char *base, uint64_t size, uint64_t objects)
{
    struct map *map;

    assert_int_equal(map_memory(&map, base, size, size, &image_backend, NULL), 0);
    assert_int_equal(pool_create_map(map, size, objects, true, false), 0);
    map_close(map);
}

static inline int image_open_by(struct pool **pool, char *base, uint64_t size, bool writable,
                                const struct map_backend *backend, void *self)
{
    struct map *map;

    assert_int_equal(map_memory(&map, base, size, size, backend, self), 0);
    return pool_open_map(pool, map, writable);
}

static inline struct pool *image_open(char *base, uint64_t size)
{
    struct pool *pool;

    assert_int_equal(image_open_by(&pool, base, size, true, &image_backend, NULL), 0);
    return pool;
}

static inline struct pool_key key_of(uint32_t file)
{
    struct pool_key key = {.handle_type = 1, .handle_bytes = 8};

    memset(key.file_system, 0xf5, sizeof(key.file_system));
    memcpy(key.handle, &file, sizeof(file));
    return key;
}

static inline void fill_bytes(char *bytes, size_t length, uint64_t seed)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = random64(&seed);

        memcpy(bytes + i, &word, length - i < 8 ? length - i : 8);
    }
}

/* Commits length bytes of a seed as the version of a file. */
/* The bytes of a draft: as ever, or (of each third) as a device brings them. */
static inline int image_write(struct pool *pool, struct pool_draft *draft, const char *bytes,
                              size_t length, uint64_t seed)
{
    struct pool_landing *landing;

    if (seed % 3 != 0 || pool_land(pool, 0, length, &landing) != 0)
        return pool_write(draft, 0, bytes, length);
    pool->map->backend->copy(pool->map->self, pool_landing_at(landing), bytes, length);
    return pool_landed(landing, draft, 0);
}

static inline int image_commit(struct pool *pool, uint32_t file, const char *path, uint64_t seed,
                               size_t length, uint64_t *number)
{
    struct pool_attributes attributes = {.path = path, .job = "job", .size = length, .mtime = seed};
    struct pool_key key = key_of(file);
    struct pool_draft *draft;
    static char bytes[MAX_FILE];
    int error = pool_begin(pool, &key, &draft);

    if (error != 0)
        return error;
    fill_bytes(bytes, length, seed | 1);
    error = image_write(pool, draft, bytes, length, seed);
    if (error != 0) {
        pool_drop(draft);
        return error;
    }
    return pool_commit(draft, &attributes, number);
}

/* ---- what a pool holds, in one number for each version ---- */

#define MAX_VERSIONS 64

struct contents {
    const struct pool *pool;
    size_t count;
    uint64_t numbers[MAX_VERSIONS], sums[MAX_VERSIONS];
    uint64_t stored;
    int error; /* of a version that could not be read */
};

static inline int sum_version(const struct pool_version *version, void *argument)
{
    struct contents *contents = argument;
    static char bytes[MAX_FILE];
    uint64_t sum;

    assert_true(contents->count < MAX_VERSIONS);
    assert_true(version->attributes.size <= MAX_FILE);
    contents->error = pool_read(contents->pool, version, 0, bytes, version->attributes.size);
    if (contents->error != 0)
        return contents->error;
    sum = portus_crc32(0, bytes, version->attributes.size);
    sum = sum << 32 | portus_crc32(0, version->attributes.path, strlen(version->attributes.path));
    sum ^= version->number * 0x9e3779b97f4a7c15u + version->attributes.size * 31;
    sum ^= (uint64_t)portus_crc32(version->pinned, version->key.handle, 8) << 16;
    contents->numbers[contents->count] = version->number;
    contents->sums[contents->count++] = sum;
    contents->stored += version->stored;
    return 0;
}

static inline struct contents contents_of(const struct pool *pool)
{
    struct contents contents = {.pool = pool};

    pool_each(pool, sum_version, &contents);
    return contents;
}

static inline bool same_contents(const struct contents *one, const struct contents *other)
{
    return one->count == other->count &&
           memcmp(one->sums, other->sums, one->count * sizeof(*one->sums)) == 0;
}

/* Nothing leaks: what no version names is free. */
static inline void check_free(const struct pool *pool, const struct contents *contents)
{
    struct pool_state state;

    pool_look(pool, &state);
    assert_int_equal(state.free + contents->stored, (pool->super.pool_bytes - pool->super.data) /
                                                        PORTUS_POOL_UNIT * PORTUS_POOL_UNIT);
    assert_int_equal(state.slots_free + contents->count, state.slots);
}

/* What is logged goes to the file said: whether anything has since the last call. */
static inline bool image_said(const char *said)
{
    struct stat status;

    if (stat(said, &status) != 0 || status.st_size == 0)
        return false;
    assert_int_equal(truncate(said, 0), 0);
    return true;
}

static inline int image_keep(const struct pool_version *version, void *argument)
{
    *(struct pool_version *)argument = *version;
    return 0;
}

static inline struct pool_version image_newest(const struct pool *pool)
{
    struct pool_version version = {0};

    assert_int_equal(pool_each(pool, image_keep, &version), 0);
    return version;
}

#endif
