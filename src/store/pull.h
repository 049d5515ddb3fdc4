/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.h -- drafts of files that are being saved, filled record by record
 */
#ifndef PORTUS_STORE_PULL_H
#define PORTUS_STORE_PULL_H

#include "portus/proto.h"
#include "portus/ring.h"
#include "store/ranges.h"
#include "store/state.h"

/* What was pulled of a file. */
struct pulled {
    struct pool_key key;
    struct pool_draft *draft; /* NULL: nothing */
    struct ranges ranges;     /* of the file, that the draft holds */
};

void pulled_free(struct pulled *pulled);

/* A peer begins a draft. It takes none of the descriptors: the file, O_PATH, and where the store is
 * shared a listing of it (none: nothing is wanted of that file). Of a peer on another machine name
 * is in the place of a file. 0, or a negative errno: it broke the protocol. */
int pull_draft(struct store *store, uint32_t peer, const struct portus_message *message,
               const int *fds, unsigned count, const struct far_name *name);
void pull_drop(uint32_t peer, uint32_t serial, uint32_t id);

/* Commits a draft, if it holds all of its file; answers. */
void pull_seal(struct store *store, uint32_t peer, const struct portus_message *message,
               const struct far_name *name);

/* All of a peer that has gone; or of one of its rings. */
void pull_gone(uint32_t peer, uint32_t serial);
void pull_spoil(uint32_t peer, uint32_t serial, uint32_t ring);

/* Moves a draft to *pulled, which its owner now frees; false: there is none. */
bool pull_take(uint32_t peer, uint32_t serial, uint32_t id, struct pulled *pulled);

/* One record of a peer's ring, and its bytes. Whether there is a draft that wants them, and where
 * in the pool they are to come (*landing NULL: anywhere); and puts them there. */
bool pull_wanted(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence,
                 struct pool_landing **landing);
void pull_record(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence, const void *bytes);
void pull_landed(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence,
                 struct pool_landing *landing);

#endif
