/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h -- how bytes come to a store on another machine, and back
 *
 * Each session has a control connection (wire.h); what there is to say goes over it. Bytes
 * of rings and files go by a *lane*, of which there is one kind for each scheme of
 * PORTUS_STORE. The store reads: a client never sends bytes that it was not asked for.
 *
 *   client (portus-carrier, portusctl)             store (portusd)
 *   wire_connect, wire_prove                       wire_accept, wire_prove
 *   HELLO + struct portus_far_hello  ->
 *                                    <-            WELCOME
 *   open                                           open
 *   offer(source)                    ->            hear
 *                                    <-            read(source, offset, length)
 *                                                  done(bytes), in order for each source
 *   withdraw(source)                 ->            hear: reads of it end with -ESTALE
 *                                    <-            push(message, bytes)
 *   pushed(message, bytes)
 *
 * A lane may use the wire for messages of its own; each message that comes is shown to it
 * first (hear). All functions return 0 or a negative errno and none blocks. One thread.
 */
#ifndef PORTUS_TRANSPORT_H
#define PORTUS_TRANSPORT_H

#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/address.h"
#include "portus/proto.h"
#include "transport/wire.h"

#define TRANSPORT_READ (1u << 20) /* bytes of one read at most */
#define TRANSPORT_PUSH PORTUS_STORE_BYTES

struct lane;

enum transport_what { TRANSPORT_RING = 0, TRANSPORT_FILE = 1 };

/* What a client lets be read. Rings may grow while they are offered. */
struct transport_source {
    enum transport_what what;
    uint32_t id; /* of those of its kind on this connection */
    int fd;      /* open for reading */
    const uint8_t
        *base;  /* of a ring: mapped, PORTUS_RING_DATA + PORTUS_RING_MAX bytes of addresses */
    void *lane; /* the lane's own */
    struct transport_source *next; /* the lane's list */
};

/* One range that a store reads. Its owner keeps it until done was called, or the lane closed. */
struct transport_read {
    enum transport_what what;
    uint32_t id;
    uint64_t offset;
    uint32_t length;
    void *to; /* where the bytes are to come, in kept memory; NULL: anywhere */
    /* bytes: all of length, valid until it returns; or NULL and why: -ESTALE: it was withdrawn or
     * is shorter by now. Called from turn or hear, never from read. */
    void (*done)(struct transport_read *read, const void *bytes, int error);
    void *owner;
    struct transport_read *next; /* the lane's */
};

/* What a client is told. */
struct transport_client {
    void (*pushed)(void *self, const struct portus_message *message, const void *bytes,
                   size_t length);
    void *self;
};

struct transport_kind {
    /* A store's: makes ready for an address that it listens at, and what that was resolved to.
     * NULL: nothing is needed. */
    int (*listen)(const struct portus_address *address, const struct addrinfo *resolved);

    /* The same for memory that reads may come into by themselves (read.to), as long as this
     * process lives. NULL: none can. -EOPNOTSUPP: this one cannot; logged. */
    int (*keep)(void *memory, size_t length);

    /* A lane of a proven connection; client NULL: a store's. */
    int (*open)(struct lane **out, struct wire *wire, const struct transport_client *client);
    void (*close)(struct lane *lane); /* reads that are not done are forgotten, not called */

    /* What else to poll; and what to do when any of it, or the wire, has something. *ready is set
     * where there is something to do already, so that it is not waited for. */
    unsigned (*watch)(struct lane *lane, struct pollfd *events, unsigned room, bool *ready);
    int (*turn)(struct lane *lane);

    /* -ENOMSG: it is no message of the lane's. Another error: the session ends. */
    int (*hear)(struct lane *lane, const struct portus_message *message, const void *bytes,
                size_t length);

    /* A client's. After withdraw nothing reads it: its memory may be used anew. */
    int (*offer)(struct lane *lane, struct transport_source *source);
    void (*withdraw)(struct lane *lane, struct transport_source *source);

    /* A store's. -EAGAIN: as many are under way as can be. */
    int (*read)(struct lane *lane, struct transport_read *read);
    /* Bytes for who waits for them: message is a STORE_BYTES. -EAGAIN: not now. */
    int (*push)(struct lane *lane, const struct portus_message *message, const void *bytes,
                size_t length);
};

const struct transport_kind *transport_find(enum portus_scheme scheme);

extern const struct transport_kind transport_tcp, transport_rdma;

/* ---- lane.c: for the kinds ---- */

void transport_offer(struct transport_source **list, struct transport_source *source);
void transport_withdraw(struct transport_source **list, const struct transport_source *source);

/* The bytes of one in the list, written to `to`. 0 or a negative errno; -ESTALE: it is
 * not there, or is shorter by now. */
int transport_copy(const struct transport_source *list, enum transport_what what, uint32_t id,
                   uint64_t offset, uint32_t length, void *to);

/* Reads, in the order in which they were asked for. All zeros: none. */
struct transport_queue {
    struct transport_read *first, *last;
};

void transport_put(struct transport_queue *queue, struct transport_read *read);
void transport_put_back(struct transport_queue *queue, struct transport_read *read); /* the first */
struct transport_read *transport_take(struct transport_queue *queue); /* there must be one */

#endif
