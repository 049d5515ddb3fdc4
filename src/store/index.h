/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.h -- a pool's versions by what they are of: object, path, directory
 *
 * So that no commit, rename or search for room looks at all versions. In memory only,
 * made anew by each opening; some 45 bytes a version.
 */
#ifndef PORTUS_STORE_INDEX_H
#define PORTUS_STORE_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct pool;
struct entry;

enum index_kind {
    INDEX_KEY,     /* by hashes.key: all versions of an object */
    INDEX_PATH,    /* by hashes.path: all versions of a path of a job and file system */
    INDEX_FOLDER,  /* by the folder's hash: of each path (as above) in it the newest version */
    INDEX_SETTLED, /* by the folder's hash: the settled versions in it */
    INDEX_KINDS,
};

/* An entry's neighbours in its chain: places in pool.entries, + 1; 0: none. */
struct index_link {
    uint32_t newer, older;
};

struct index {
    uint32_t *heads[INDEX_KINDS]; /* places + 1 by hash: where chains begin, newest first */
    struct index_link *links[INDEX_KINDS];
    uint64_t mask;
    size_t room; /* entries that can be in it */
};

/* Makes room for all entries that the pool has room for. -ENOMEM: it is as before. */
int index_room(struct pool *pool);

/* Anew, of all entries that are not dead: they have moved. */
void index_build(struct pool *pool);
void index_close(struct index *index);

/* entry is the newest of all. */
void index_add(struct pool *pool, const struct entry *entry);
void index_remove(struct pool *pool, const struct entry *entry);

/* The newest entry of a hash, and the next ones; NULL: none. All but INDEX_FOLDER are in order. */
struct entry *index_newest(const struct pool *pool, enum index_kind kind, uint64_t hash);
struct entry *index_older(const struct pool *pool, enum index_kind kind, const struct entry *entry);
struct entry *index_newer(const struct pool *pool, enum index_kind kind, const struct entry *entry);

#endif
