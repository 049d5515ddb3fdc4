/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake.h -- versions of bytes that somebody sends, as portusctl import does
 *
 * By portusctl itself into a pool that nobody serves, otherwise by portusd for it. Nothing of what
 * is said of the file is known to be true: what was taken in is an object of its own, which never
 * stands for a file that has the same path.
 */
#ifndef PORTUS_STORE_INTAKE_H
#define PORTUS_STORE_INTAKE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "portus/proto.h"
#include "store/pool.h"

/* One at a time. Zeros: none is begun. */
struct intake {
    struct pool_draft *draft;
    struct portus_import file;
    char path[PATH_MAX], job[PATH_MAX];
    int error; /* of its bytes, the first one */
};

/* The key of a file that was taken in as path: of no file system. */
struct pool_key intake_key(const char *path, uint32_t owner);

/* From what is behind a STORE_IMPORT; what was begun and not kept is dropped. -EPROTO: it is none.
 */
int intake_read(struct intake *intake, const void *bytes, size_t length);

/* Begins what was read. share: whose it is, and which older versions may make room; keep: see
 * pool_make_room. 0 or a negative errno; -ENOSPC. */
int intake_begin(struct intake *intake, struct pool *pool, const struct pool_share *share,
                 unsigned keep);

/* Bytes of it. An error is said again by intake_keep. */
int intake_put(struct intake *intake, uint64_t offset, const void *bytes, size_t length);

/* Commits it. 0 or a negative errno: it is dropped. */
int intake_keep(struct intake *intake, uint64_t *number);
void intake_drop(struct intake *intake);

#endif
