/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moved.h -- files that have another name, as an agent lists them
 */
#ifndef PORTUS_STORE_MOVED_H
#define PORTUS_STORE_MOVED_H

#include <stdbool.h>
#include <stdint.h>

struct moved;
struct store;

/* fd: a listing (common/listing.h) of a process of user uid; it stays the caller's;
 * machine: where its files are, NULL: here. -EPROTO. */
int moved_open(struct moved **out, int fd, uint32_t uid, const uint8_t machine[16]);
void moved_close(struct moved *moved);

/* Does a little of it; whether there is more. */
bool moved_step(struct store *store, struct moved *moved);

#endif
