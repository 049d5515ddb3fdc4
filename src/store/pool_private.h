/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_private.h -- a pool in this process: what its files share, and its tests
 */
#ifndef PORTUS_STORE_POOL_PRIVATE_H
#define PORTUS_STORE_POOL_PRIVATE_H

#include "portus/layout.h"
#include "store/body.h"
#include "store/catalogue.h"
#include "store/index.h"
#include "store/map.h"
#include "store/pool.h"
#include "store/space.h"

/* A committed version. */
struct entry {
    uint64_t number, takes;
    uint64_t body;
    uint32_t body_bytes, body_crc;
    struct body_hashes hashes;
    uint64_t units; /* of the data space, body included */
    char *text;     /* path and job, each with its NUL; NULL until it is asked for */
    uint32_t slot;
    uint32_t other; /* while it is opened: the entry that takes this one's extents, + 1 */
    uint32_t owner;
    uint8_t copy; /* of the catalogue: which says that it is committed */
    bool pinned, settled, damaged, dead;
};

/* Where to look for versions that may go: from `next` on, and at those of `again` before it. */
struct room {
    unsigned keep; /* that was meant then */
    size_t next;
    uint32_t *again; /* places: a heap, the least first */
    size_t again_count, again_room;
};

/* A user's versions; and where to look for theirs that may go. */
struct owner {
    uint32_t owner;
    uint64_t units, versions;
    struct room spare;
};

/* A slot that is neither free nor a version; and the units of its body. */
struct damaged {
    uint32_t slot;
    uint64_t first, units;
};

/* The body that was used last, and bytes of an extent that is wanted in part. */
struct pool_cache {
    uint64_t number; /* 0: none */
    struct body body;
    char *bytes;
};

struct pool {
    struct map *map;
    struct portus_pool_superblock super;
    struct body_bounds bounds;
    struct space data, slots;
    struct entry *entries; /* ascending by number; removed ones are dead */
    size_t count, room, dead;
    struct index index;
    struct room spare;    /* of all versions */
    struct owner *owners; /* ascending; one that has none any more stays */
    size_t owner_count, owner_room;
    uint64_t newest; /* number that was given out last */
    struct damaged *damaged;
    size_t damaged_count, damaged_room;
    uint64_t repaired;
    unsigned lines; /* of damage that were written */
    uint64_t seed[2];
    struct pool_cache *cache;
    struct pool_draft *drafts;
    struct pool_landing *landings;
};

/* The same as pool_open and pool_create, on memory that is mapped already; takes map over. */
int pool_open_map(struct pool **out, struct map *map, bool writable);
int pool_create_map(struct map *map, uint64_t size, uint64_t objects, bool force, bool fresh);

/* Fills the empty pool from its memory, and repairs that if it is writable. */
int recover(struct pool *pool);

/* Where the entries of this number and above begin; the entry of a number (NULL: there is none);
 * the newest one of an object, whose body it loads (-ENOENT: there is none). */
size_t pool_place(const struct pool *pool, uint64_t number);
int pool_newest_entry(const struct pool *pool, const struct pool_key *key, struct body *body,
                      struct entry **found);
struct entry *pool_find(const struct pool *pool, uint64_t number);
/* One more at the end; room was made by pool_room. */
int pool_room(struct pool *pool);
struct entry *pool_append(struct pool *pool, const struct entry *entry);
/* After it was retired: no version any more. */
void pool_bury(struct pool *pool, struct entry *entry);

/* room.c: entry was added, which may make older ones superfluous; is about to be buried; was
 * unpinned; or all have moved. */
void room_added(struct pool *pool, const struct entry *entry);
void room_removed(struct pool *pool, const struct entry *entry);
void room_unpinned(struct pool *pool, const struct entry *entry);
void room_moved(struct pool *pool);

/* owner.c: of all entries, once they are there; room for one more owner; entry is new, is about to
 * go; NULL: has no versions. */
int owner_build(struct pool *pool);
int owner_room(struct pool *pool);
void owner_add(struct pool *pool, const struct entry *entry);
void owner_remove(struct pool *pool, const struct entry *entry);
struct owner *owner_find(const struct pool *pool, uint32_t owner);
void owner_close(struct pool *pool);

/* Whether the slot of an entry still says so. -ESTALE: not. */
int pool_stands(const struct pool *pool, const struct entry *entry);

/* Sets or clears a flag of an entry's marks: in the pool only, the rest is the caller's. */
int pool_flag(struct pool *pool, const struct entry *entry, uint32_t flag, bool on);

/* Loads an entry's body; a damaged one is told of. -ESTALE: removed meanwhile. */
int pool_body(const struct pool *pool, const struct entry *entry, struct body *body);

/* draft.c, land.c: add what is being written. */
void draft_use(const struct pool *pool, const struct pool_share *share, struct pool_usage *usage);
void landings_use(const struct pool *pool, const struct pool_share *share,
                  struct pool_usage *usage);

/* Bytes that are in the pool already become the draft's, with the units that they lie in. -EEXIST:
 * it has some in that range. */
int draft_adopt(struct pool_draft *draft, uint64_t offset, uint64_t place, uint32_t length);

uint64_t pool_unit(const struct pool *pool, uint64_t place);

/* Writes the body into space that it takes, and commits it in a slot that it takes; the
 * extents' units are the caller's, who keeps them on an error unless *committed. */
int pool_publish(struct pool *pool, struct body *body, uint64_t takes, bool pinned,
                 bool *committed);

#endif
