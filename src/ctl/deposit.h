/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deposit.h -- puts versions into a pool: by the portusd that serves it, or itself if none does
 */
#ifndef PORTUS_CTL_DEPOSIT_H
#define PORTUS_CTL_DEPOSIT_H

#include <stddef.h>
#include <stdint.h>

#include "portus/proto.h"

struct deposit;

/* store: a pool, or a name that is spoken to; keep: see pool_make_room. 0, or a negative errno
 * after a message. */
int deposit_open(struct deposit **out, const char *store, unsigned keep);

/*
 * A version: one at a time. What was begun and not kept is dropped by the next one. file: but for
 * the lengths of the texts. 0 or a negative errno; *number: of its commit.
 */
int deposit_begin(struct deposit *deposit, const struct portus_import *file, const char *path,
                  const char *job);
int deposit_put(struct deposit *deposit, uint64_t offset, const void *bytes, size_t length);
int deposit_keep(struct deposit *deposit, uint64_t *number);

/* PORTUS_OP_STORE_PIN or _SETTLE, of a commit. 0 or a negative errno. */
int deposit_mark(struct deposit *deposit, enum portus_op op, uint64_t number);

/* NULL: nothing. */
void deposit_close(struct deposit *deposit);

#endif
