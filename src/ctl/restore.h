/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore.h -- how a version becomes a file again: for portusctl restore and complete
 */
#ifndef PORTUS_CTL_RESTORE_H
#define PORTUS_CTL_RESTORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "store/pool.h"

/* Before the first file. command is named in messages. force: what is there may be replaced. */
void restore_begin(struct pool *pool, const char *command, bool force);

/* So many bytes will be written, for the progress bar. */
void restore_expect(uint64_t bytes);

/*
 * Brings the version back at path. What is there must be its beginning, unless force.
 * judged: what must be there, unchanged, with a read lease on it; NULL: whatever is. 0, or
 * an exit status after a message; that it was done is said, too.
 */
int restore_file(const struct pool_version *version, const char *path, const struct stat *judged);

/*
 * The same by itself, without --force. left: bytes of all that are to come, for the bar.
 */
int restore_version(struct pool *pool, const struct pool_version *version, const char *path,
                    uint64_t *left);

#endif
