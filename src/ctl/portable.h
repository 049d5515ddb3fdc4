/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * portable.h -- what a version is beside its bytes, for export --all and import --all
 *
 * The name of a version outside of a pool is its path and "@" and its commit; the rest
 * is one extended attribute, a text. Without it a file still is a version of that path.
 */
#ifndef PORTUS_CTL_PORTABLE_H
#define PORTUS_CTL_PORTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/pool.h"

#define PORTABLE_NAME "user.portus"
#define PORTABLE_BYTES 4352 /* of the text, with its NUL */

struct portable {
    uint64_t commit; /* where it came from; 0: not known */
    bool known;      /* the rest */
    bool settled, pinned;
    uint32_t owner; /* uid */
    char job[4096];
};

/* Its text. Returns the length. */
size_t portable_write(char text[PORTABLE_BYTES], const struct pool_version *version);

/* From a text of so many bytes, which may be anything. */
void portable_read(struct portable *portable, const char *text, size_t length);

/* Cuts "@commit" off a path. false: there is none. */
bool portable_cut(struct portable *portable, char *path);

#endif
