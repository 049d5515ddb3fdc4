/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.h -- files that have another name than the pool knows
 */
#ifndef PORTUS_CTL_NAMES_H
#define PORTUS_CTL_NAMES_H

#include <stdbool.h>

#include "ctl/vault.h"

/* Whether path is the very file that the version was made of. far: the store has other
 * machines' files, too. */
bool names_is_of(const struct pool_version *version, const char *path, bool far);

/*
 * Adds the versions of the file at path, or of all in that directory (below: and below it), that
 * the pool has by another path only, by the one that they have now. 0 or a negative errno;
 * -E2BIG: there are too many to be looked at, the first were.
 */
int names_add(struct vault_list *list, const struct pool *pool, const char *path, bool below,
              bool far);

#endif
