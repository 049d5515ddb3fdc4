/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vault.h -- the pool that a subcommand is about, and the versions that a path means
 */
#ifndef PORTUS_CTL_VAULT_H
#define PORTUS_CTL_VAULT_H

#include <limits.h>
#include <stdbool.h>

#include "ctl/ctl.h"
#include "store/pool.h"

/* Opens the pool of --store or PORTUS_STORE for reading. 0, or an exit status after a message. */
int vault_open(struct pool **pool, const struct options *options, const char *command);

/* A version, and a copy of its path that stays. */
struct vault_version {
    struct pool_version version;
    char *path, *job;
};

struct vault_list {
    struct vault_version *entry; /* in the order of their commits */
    size_t count;
};

/*
 * All versions of path, or of the files in and below it; path NULL: of all. 0 or an exit
 * status after a message. absolute receives the path as it is looked for.
 */
int vault_find(struct vault_list *list, const struct pool *pool, const char *path,
               char absolute[PATH_MAX], const char *command);
void vault_free(struct vault_list *list);

/* One more, by that path. 0 or -ENOMEM. */
int vault_add(struct vault_list *list, const struct pool_version *version, const char *path);

/*
 * Leaves one version for each path: its newest; of those up to commit number if that is
 * not 0. settled: in each directory only what was there when all its files were whole the
 * last time; where that never was, nothing of it stays, and unsettled is one of its paths
 * (otherwise ""). Sorts by path. 0 or -ENOMEM.
 */
int vault_newest(struct vault_list *list, uint64_t number, bool settled, char unsettled[PATH_MAX]);

/*
 * Asks the portusd that serves the pool, or does it here if none does: op and flags of a
 * message. 0 or a negative errno.
 */
int vault_change(const struct options *options, unsigned op, uint64_t number, unsigned flags,
                 uint64_t *answer);

#endif
