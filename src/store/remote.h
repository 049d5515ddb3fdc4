/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.h -- the pool of a portusd of another user, read through its socket
 */
#ifndef PORTUS_STORE_REMOTE_H
#define PORTUS_STORE_REMOTE_H

#include "store/pool.h"

/* Whether a store's name is a socket: unix:PATH. */
bool remote_is(const char *name);

/* Connects to the portusd at a name (a pool's path, or unix:PATH). A socket, or a negative
 * errno: -ECONNREFUSED: none is there. */
int remote_connect(const char *name);

/* One message, and the answer to it: of STORE_DONE the error, and *answer its number. */
int remote_ask(int socket, unsigned op, uint64_t number, unsigned flags, uint64_t *answer);

/* What of the pool at unix:PATH is this user's, for reading. Logs why not. */
int remote_open(struct pool **out, const char *name);

#endif
