/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.h -- drafts of files that are being saved
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

/* A peer's messages of these kinds. 0 or a negative errno: it broke the protocol. pull_ring
 * takes fd, which is memory (-1: the ring is of no use any more); pull_draft takes none of its
 * descriptors: the file, O_PATH, and where the store is shared a listing of it (none: nothing is
 * wanted of that file). Of a peer on another machine name is in the place of a file, and flags say
 * whether there is a ring. */
int pull_ring(struct store *store, uint32_t peer, const struct portus_message *message, int fd);
int pull_draft(struct store *store, uint32_t peer, const struct portus_message *message,
               const int *fds, unsigned count, const struct far_name *name);
int pull_more(struct store *store, uint32_t peer, const struct portus_message *message);
void pull_drop(uint32_t peer, uint32_t serial, uint32_t id);

/* Commits a draft, if it holds all of its file; answers. */
void pull_seal(struct store *store, uint32_t peer, const struct portus_message *message,
               const struct far_name *name);

/* All of a peer that has gone. */
void pull_gone(uint32_t peer, uint32_t serial);

/* Moves a draft to *pulled, which its owner now frees; false: there is none. */
bool pull_take(uint32_t peer, uint32_t serial, uint32_t id, struct pulled *pulled);

/* One record of a peer's ring, and its bytes. Whether there is a draft that wants them, and where
 * in the pool they are to come (NULL: anywhere); and puts them there. */
bool pull_wanted(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence,
                 struct pool_landing **landing);
void pull_record(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence, const void *bytes);
void pull_landed(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence,
                 struct pool_landing *landing);

/* reel.c: the ring of a peer on another machine. */
struct reel;
int reel_open(struct reel **out, struct store *store, uint32_t peer, uint32_t id,
              uint64_t position);
void reel_close(struct reel *reel);
/* Copies on, up to that record; *position is how far it has come. False: it makes no sense. */
bool reel_turn(struct reel *reel, uint64_t upto, uint64_t *position);

/* Copies some; whether there is more to do. */
bool pull_turn(struct store *store);

#endif
