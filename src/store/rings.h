/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings.h -- copies what programs save out of their rings, while they save
 */
#ifndef PORTUS_STORE_RINGS_H
#define PORTUS_STORE_RINGS_H

#include "portus/proto.h"
#include "portus/ring.h"
#include "store/state.h"

/* A peer's messages: its ring, which is memory (takes fd; -1: it is of no use any more; of a peer
 * on another machine flags say whether there is one), and how far its records are filled. 0, or a
 * negative errno: it broke the protocol. */
int rings_offered(struct store *store, uint32_t peer, const struct portus_message *message, int fd);
int rings_filled(struct store *store, uint32_t peer, const struct portus_message *message);

/* All of a peer that has gone. */
void rings_gone(uint32_t peer, uint32_t serial);

/* Copies some; whether there is more to do. */
bool rings_turn(struct store *store);

/* reel.c: the ring of a peer on another machine. */
struct reel;
int reel_open(struct reel **out, struct store *store, uint32_t peer, uint32_t id,
              uint64_t position);
void reel_close(struct reel *reel);
/* Copies on, up to that record; *position is how far it has come. False: it makes no sense. */
bool reel_turn(struct reel *reel, uint64_t upto, uint64_t *position);

#endif
