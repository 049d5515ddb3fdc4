/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore.h -- a version is put at a path
 */
#ifndef PORTUS_CTL_RESTORE_H
#define PORTUS_CTL_RESTORE_H

#include "store/pool.h"

/*
 * As portusctl restore without --force does it: never half a file under its name, and what
 * is there is left alone unless it is the beginning of the version. left: bytes of all that
 * are to come, for the bar. 0, or an exit status after a message.
 */
int restore_version(struct pool *pool, const struct pool_version *version, const char *path,
                    uint64_t *left);

#endif
