/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * import.h -- what portusctl import sends to portusd
 */
#ifndef PORTUS_STORE_IMPORT_H
#define PORTUS_STORE_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "portus/proto.h"

struct store;
struct intake;

/* Whether a message is of these: STORE_IMPORT, STORE_BYTES, STORE_KEEP. */
bool import_is(unsigned op);

/* One of them, of the peer at place, with what is behind it. 0, or a negative errno: hang up. */
int import_hear(struct store *store, unsigned place, const struct portus_message *message,
                const void *bytes, size_t length);

/* The peer goes. NULL: nothing. */
void import_close(struct intake *intake);

#endif
