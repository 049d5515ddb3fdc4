/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.h -- which live files a path on the command line means
 */
#ifndef PORTUS_CTL_TARGET_H
#define PORTUS_CTL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/look.h"

struct target {
    const char *path;       /* as it was given */
    char *real;             /* absolute and without symbolic links; NULL: not known */
    uint64_t device, inode; /* st_dev, st_ino */
    bool directory;
};

/* Returns 0 or a negative errno; -EINVAL: neither a regular file nor a directory. */
int target_find(struct target *target, const char *path);
void target_free(struct target *target);

/* Whether file is the target, or for a directory is in or below it. */
bool target_covers(const struct target *target, const struct view_file *file);

/* A file that was live when it was noted; its place may serve another one later. */
struct mark {
    uint32_t slot;
    uint64_t device, inode, since_ns;
    uint64_t base, drained, captured; /* bytes: drained when noted; as seen last */
    bool seen;                        /* by the last look */
    bool clean;                       /* seen when it was done, without an error */
};

struct mark mark_make(const struct view_file *file);

/* Whether file is the one that was noted. */
bool mark_is(const struct mark *mark, const struct view_file *file);

#endif
