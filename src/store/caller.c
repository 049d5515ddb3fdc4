/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller.c -- what a peer on another machine asks for
 *
 * The same as one on this machine (session.c), with a description in each place of a descriptor.
 */
#include <errno.h>
#include <unistd.h>

#include "common/message.h"
#include "store/far.h"
#include "store/pull.h"
#include "store/rings.h"
#include "store/state.h"

/* A listing as an agent of this machine would have passed it: a sealed memfd; or -1. */
static int listing_of(const void *bytes, size_t length)
{
    int fd = length == 0 || length > LISTING_MOST ? -1 : listing_make(bytes, length);

    return fd < 0 ? -1 : fd;
}

static int take(struct store *store, unsigned place, const struct portus_message *message,
                const void *bytes, size_t length)
{
    struct store_peer *peer = &store->peer[place];
    static struct far_name name;
    struct far_file *file;
    const void *rest;
    size_t rest_bytes;
    int error = far_name_read(&name, peer->far, bytes, length, &rest, &rest_bytes);

    if (error != 0)
        return error;
    error = store_queue_may(store, place);
    if (error == 0)
        error = far_file_open(&file, peer->far, message->value, &name);
    if (error != 0) {
        pull_drop(place, store->serial[place], message->value);
        store_answer(store, place, store->serial[place], message->value, error, 0);
        return 0;
    }
    store_queue(store, place, message, -1, file, listing_of(rest, rest_bytes));
    return 0;
}

static int renamed(struct store *store, unsigned place, uint32_t id, const void *bytes,
                   size_t length)
{
    struct store_peer *peer = &store->peer[place];
    int fd = listing_of(bytes, length), error;

    if (fd < 0)
        return -EPROTO;
    peer->moved_id = id;
    error = moved_open(&peer->moved, fd, peer->uid, peer->far->machine);
    close(fd);
    return error != 0 ? error : -EAGAIN; /* that is done first */
}

/* With a description, or (of a draft) none. */
static int hear_named(struct store *store, unsigned place, const struct portus_message *message,
                      const void *bytes, size_t length)
{
    static struct far_name name;
    const void *rest;
    size_t rest_bytes = 0;
    int error = 0;

    if (length > 0)
        error = far_name_read(&name, store->peer[place].far, bytes, length, &rest, &rest_bytes);
    if (error != 0 || rest_bytes != 0)
        return -EPROTO;
    if (message->op == PORTUS_OP_STORE_DRAFT)
        return pull_draft(store, place, message, NULL, 0, length > 0 ? &name : NULL);
    if (length == 0)
        return -EPROTO;
    pull_seal(store, place, message, &name);
    return 0;
}

int store_hear_far(struct store *store, unsigned place)
{
    struct store_peer *peer = &store->peer[place];
    struct portus_message message;
    const void *bytes;
    size_t length;
    int error = far_receive(peer->far, &message, &bytes, &length);

    if (error != 0)
        return error;
    switch (message.op) {
    case PORTUS_OP_STORE_FILE:
        return take(store, place, &message, bytes, length);
    case PORTUS_OP_STORE_RENAMED:
        return renamed(store, place, message.value, bytes, length);
    case PORTUS_OP_STORE_DRAFT:
    case PORTUS_OP_STORE_SEAL:
        return hear_named(store, place, &message, bytes, length);
    case PORTUS_OP_FAR_STATE:
        return far_file_hear(peer->far, &message, bytes, length);
    case PORTUS_OP_STORE_IMPORT:
    case PORTUS_OP_STORE_BYTES:
    case PORTUS_OP_STORE_KEEP:
        return import_hear(store, place, &message, bytes, length);
    }
    if (length != 0)
        return -EPROTO;
    switch (message.op) {
    case PORTUS_OP_STORE_RING:
        return rings_offered(store, place, &message, -1);
    case PORTUS_OP_STORE_PULL:
        return rings_filled(store, place, &message);
    case PORTUS_OP_STORE_DROP:
        pull_drop(place, store->serial[place], message.value);
        return 0;
    case PORTUS_OP_STORE_READ:
        /* Other things are heard meanwhile, but not another one of these. */
        return peer->read_left > 0 ? -EPROTO : store_hear_plain(store, place, &message);
    default:
        return store_hear_plain(store, place, &message);
    }
}
