/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h -- the control connection of a client and a store on two machines
 *
 * TCP, and over it TLS 1.3 with a pre-shared key and an ephemeral exchange: when it is there
 * both sides have proven that they know the key, and nobody else has heard or can change
 * anything. Over that go messages (proto.h), with bytes behind them: `length` is both.
 *
 * Nothing here blocks but wire_connect. What is sent is copied and queued; who sends much
 * looks at wire_queued first.
 */
#ifndef PORTUS_TRANSPORT_WIRE_H
#define PORTUS_TRANSPORT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/address.h"
#include "portus/proto.h"
#include "transport/key.h"

struct wire;

#define WIRE_BYTES (17u << 20) /* behind a message at most: a listing and a file */
#define WIRE_SECRET 32

/*
 * Connects, and proves. Waits that many milliseconds at most, for each address of the host
 * a part of it. 0 or a negative errno: -EKEYREJECTED: the store does not know this key, or the
 * other side does not know it; -EPROTO: what answers is no portusd; -EADDRNOTAVAIL: no such host.
 */
int wire_connect(struct wire **out, const struct portus_address *address, const struct key *key,
                 int milliseconds);

/* The same for who was connected to: takes fd. keys must live until wire_prove is through. */
int wire_accept(struct wire **out, const struct keys *keys, int fd);

/* One step. 0: proven; -EAGAIN: wait; or another negative errno. */
int wire_prove(struct wire *wire);

/* Hangs up; what is queued is not waited for. NULL: nothing. */
void wire_close(struct wire *wire);

int wire_descriptor(const struct wire *wire);
/* What to wait for with poll; 0 with *ready: there is something to receive already. */
short wire_events(const struct wire *wire, bool *ready);

/* Who is at the other end: the name of its key; to a client that of its own. */
const char *wire_name(const struct wire *wire);
uint32_t wire_owner(const struct wire *wire);

/* Its address, for people. */
const char *wire_peer(const struct wire *wire);

/* What both ends of this connection know and nobody else: for what is to belong to it. */
int wire_secret(const struct wire *wire, uint8_t secret[WIRE_SECRET]);

/* Queues it, and sends what is taken. -EMSGSIZE, -ENOMEM; -ECONNRESET: the connection is gone. */
int wire_send(struct wire *wire, const struct portus_message *message, const void *bytes,
              size_t length);
/* The same with bytes that the caller writes to *to, before the next call of any function here.
 * wire_take_back: they cannot be had; the message was never there. */
int wire_begin(struct wire *wire, const struct portus_message *message, size_t length, void **to);
void wire_take_back(struct wire *wire, size_t length);
int wire_flush(struct wire *wire); /* 0: nothing is queued any more; -EAGAIN; or another error */
size_t wire_queued(const struct wire *wire);

/*
 * The next message and what is behind it; *bytes are valid until the next call. -EAGAIN: none
 * has come yet; -ECONNRESET: hung up; -EPROTO: it is none; -EPROTONOSUPPORT: it is of another
 * version, which is in *message.
 */
int wire_receive(struct wire *wire, struct portus_message *message, const void **bytes,
                 size_t *length);

/* When something came last: CLOCK_MONOTONIC, ns. */
uint64_t wire_heard(const struct wire *wire);

#endif
