/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.h -- the pool of a portusd of another user, read through its socket
 */
#ifndef PORTUS_STORE_REMOTE_H
#define PORTUS_STORE_REMOTE_H

#include "store/pool.h"

/* Whether a store's name is one that is spoken to: unix:PATH, or an address. */
bool remote_is(const char *name);

/* How stores at addresses are reached: a function that makes a socket, or says a negative errno. */
void remote_dial_by(int (*dial)(const char *name));

/* Connects to the portusd at a name (a pool's path, or unix:PATH). A socket, or a negative
 * errno: -ECONNREFUSED: none is there. */
int remote_connect(const char *name);

/* One message, and the answer to it: of STORE_DONE the error, and *answer its number. */
int remote_ask(int socket, unsigned op, uint64_t number, unsigned flags, uint64_t *answer);

/* The answer to what was asked otherwise. */
int remote_answer(int socket, uint64_t *answer);

/* What of the pool at unix:PATH, or at an address, is this user's, for reading. Logs why not. */
int remote_open(struct pool **out, const char *name);

#endif
