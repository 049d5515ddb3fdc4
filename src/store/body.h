/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * body.h -- what a version says of itself: key, path, attributes, extents
 *
 * Always a copy in this process's memory: what is checked is what is used, whoever
 * changes the pool meanwhile.
 */
#ifndef PORTUS_STORE_BODY_H
#define PORTUS_STORE_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "portus/layout.h"
#include "store/map.h"
#include "store/pool.h"

struct body {
    struct portus_pool_body *head; /* with all that follows it */
    size_t room;
    const uint8_t *handle;
    const char *path, *job;
    struct portus_pool_extent *extents;
};

/* Where data may lie. */
struct body_bounds {
    uint64_t begin, end;
};

/* Units of the pool that length bytes take. */
static inline uint64_t body_units(uint64_t length)
{
    return (length + PORTUS_POOL_UNIT - 1) / PORTUS_POOL_UNIT;
}

/* Whether bytes at offset lie within the data space and begin at a unit. */
bool body_inside(const struct body_bounds *bounds, uint64_t offset, uint64_t bytes);

/*
 * Reads and checks the body of bytes at offset. *why: what is wrong, in words, or NULL.
 * -EUCLEAN: damaged; body is as before (its memory may have been replaced). body begins
 * as zeros and may be used again and again.
 */
int body_load(struct body *body, struct map *map, const struct body_bounds *bounds, uint64_t number,
              uint64_t offset, uint32_t bytes, uint32_t crc, const char **why);

/* Makes one with room for extents, which are the caller's to fill in. */
int body_make(struct body *body, const struct pool_key *key,
              const struct pool_attributes *attributes, uint64_t extents);

/* Units that the extents and the body itself take. */
uint64_t body_stored(const struct body *body);

/* What its head says, and the two texts: the caller's. */
struct pool_attributes body_attributes(const struct portus_pool_body *head, const char *path,
                                       const char *job);

bool body_has_key(const struct body *body, const struct pool_key *key);
bool body_same_key(const struct body *one, const struct body *other);
bool body_same_place(const struct body *one, const struct body *other); /* file system, job, path */
bool body_same_extents(const struct body *one, const struct body *other);

/* Hashes of the key, of file system, job and path, and of the same without the last name; the
 * lower half of which is that of the path without the last name alone: its folder. */
struct body_hashes {
    uint64_t key, path, directory;
};
struct body_hashes body_hash(const struct body *body, const uint64_t seed[2]);
uint32_t body_hash_folder(const char *path, const uint64_t seed[2]);
uint64_t body_hash_key(const struct pool_key *key, const uint64_t seed[2]);

void body_free(struct body *body);

#endif
