/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scrub.h -- reads all of a pool that is open for writing, and repairs what can be repaired
 *
 * A pass looks at the superblocks, the slots and the bytes of all versions, a piece at a
 * time; between pieces the pool may be used and changed. Superblocks and slots are made
 * right from what this process knows of them. Bytes come from the file that the version
 * was made of, if it still has them. What cannot be repaired is marked, and said once.
 */
#ifndef PORTUS_STORE_SCRUB_H
#define PORTUS_STORE_SCRUB_H

#include "store/pool.h"

struct scrub;

/* What the file of a version was when the version was what the file is. */
struct scrub_stamp {
    uint64_t size;
    int64_t mtime, ctime; /* ns since 1970 */
};

/* Reads from the file of a version, if it is the same file and has that stamp before and
 * after. 0 or a negative errno. The bytes are checked by the caller. */
typedef int scrub_fetch(const struct pool_version *version, const struct scrub_stamp *stamp,
                        uint64_t offset, void *to, size_t length);

struct scrub_report {
    uint64_t done, total; /* bytes, about */
    uint64_t copies;      /* superblocks and slots that were written anew */
    uint64_t repaired;    /* versions whose bytes were */
    uint64_t damaged;     /* versions whose bytes cannot be */
};

/* Begins a pass; versions are looked at from that number on, then those before. */
int scrub_begin(struct scrub **out, struct pool *pool, uint64_t first);

/* Looks at about so many bytes. 1: there is more; 0: that was all; or a negative errno. */
int scrub_step(struct scrub *scrub, uint64_t bytes, scrub_fetch *fetch);
void scrub_look(const struct scrub *scrub, struct scrub_report *report);
void scrub_end(struct scrub *scrub);

/* A scrub_fetch: of the real file, by the path of the version. */
int original_read(const struct pool_version *version, const struct scrub_stamp *stamp,
                  uint64_t offset, void *to, size_t length);

#endif
