/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carrier.c -- between a packet socket with descriptors and a store on another machine
 *
 * What an agent says to a store goes on, with descriptions in place of descriptors; what the
 * store wants of them it asks for, and gets from here. So the agent's own loop, which drains,
 * neither encrypts nor waits for a network.
 *
 * Bounded: a store that is not heard of for DEAD_NS is gone, whatever it was doing, and this
 * process with it. The agent then has another one, or none: it is told by the hang-up. A file that
 * somebody waits for to write is closed at once, whatever the store says.
 */
#include "carrier/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/listing.h"
#include "common/log.h"
#include "common/message.h"

#define HELLO_MS 5000
#define ASK_NS 5000000000ull   /* silent for so long: asked whether it hears */
#define DEAD_NS 15000000000ull /* then it is given up */
#define LOCAL_MS 10000         /* who had this run must take what it asked for */
#define QUEUED (4u << 20)      /* so much waits for the network: nothing more is heard here */
#define MESSAGES_A_TURN 64
#define TICK_NS 10000000
#define ALIVE UINT32_MAX

struct carrier {
    int local;
    struct joined store;
    struct offers offers;
    struct transport_client client;
    uint64_t asked; /* whether it hears, ns; 0: not */
    int error;      /* of a callback */
};

/* ---- to the agent ---- */

static int give(struct carrier *carrier, const struct portus_message *message, const void *bytes)
{
    struct pollfd event = {.fd = carrier->local, .events = POLLOUT};
    int error;

    for (;;) {
        error = bytes != NULL ? portus_message_send_bytes(carrier->local, message, bytes)
                              : portus_message_send(carrier->local, message, NULL, 0);
        if (error != -EAGAIN)
            return error;
        if (poll(&event, 1, LOCAL_MS) == 0)
            return -ETIMEDOUT;
    }
}

static int done(struct carrier *carrier, uint32_t id, int result)
{
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_DONE);

    message.value = id;
    message.error = result;
    return give(carrier, &message, NULL);
}

static void pushed(void *self, const struct portus_message *message, const void *bytes,
                   size_t length)
{
    struct carrier *carrier = self;
    struct portus_message local = *message;

    local.length = sizeof(local);
    local.flags = (uint32_t)length;
    carrier->error = length > PORTUS_STORE_BYTES ? -EPROTO : give(carrier, &local, bytes);
}

/* ---- from the agent ---- */

static int pass(struct carrier *carrier, const struct portus_message *message, const void *bytes,
                size_t length)
{
    return wire_send(carrier->store.wire, message, bytes, length);
}

/* What the store has pulled of a file that it will not get is of no use any more. */
static int refuse(struct carrier *carrier, uint32_t id, int result)
{
    struct portus_message drop = portus_message_make(PORTUS_OP_STORE_DROP);
    int error;

    drop.value = id;
    offers_drop(&carrier->offers, OFFER_DRAFT, id);
    error = pass(carrier, &drop, NULL, 0);
    return error != 0 ? error : done(carrier, id, result);
}

/* A file to be kept. Takes fd; listing: a descriptor, or -1. */
static int take_file(struct carrier *carrier, const struct portus_message *message, int fd,
                     int listing)
{
    void *bytes = NULL;
    size_t length;
    int error = offers_describe(fd, listing, &bytes, &length);

    offers_drop(&carrier->offers, OFFER_DRAFT, message->value);
    if (error == 0)
        error = offers_add(&carrier->offers, OFFER_FILE, message->value, fd);
    else
        close(fd);
    if (error == 0)
        error = pass(carrier, message, bytes, length);
    else
        error = refuse(carrier, message->value, error); /* this file is not kept, that is all */
    free(bytes);
    return error;
}

static int take_ring(struct carrier *carrier, const struct portus_message *message, int fd)
{
    struct portus_message ring = *message;
    int error = 0;

    if (fd < 0)
        offers_drop(&carrier->offers, OFFER_RING, message->value);
    else
        error = offers_add(&carrier->offers, OFFER_RING, message->value, fd);
    if (error != 0)
        return error; /* its records would be waited for */
    ring.flags = fd >= 0;
    return pass(carrier, &ring, NULL, 0);
}

/* The name of a file that is being saved. Takes fd. */
static int take_draft(struct carrier *carrier, const struct portus_message *message, int fd)
{
    struct portus_message draft = *message;
    void *bytes = NULL;
    size_t length = 0;
    int error = fd >= 0 ? offers_describe(fd, -1, &bytes, &length) : -ENOENT;

    if (error == 0) {
        error = offers_add(&carrier->offers, OFFER_DRAFT, message->value, fd);
    } else if (fd >= 0) {
        close(fd);
    }
    if (error != 0) {
        length = 0; /* from here on the number is that of a file that is read when it is whole */
        draft.value = 0;
    }
    error = pass(carrier, &draft, bytes, length);
    free(bytes);
    return error;
}

static int seal(struct carrier *carrier, const struct portus_message *message)
{
    int fd = offers_find(&carrier->offers, OFFER_DRAFT, message->value), error;
    void *bytes = NULL;
    size_t length;

    error = fd >= 0 ? offers_describe(fd, -1, &bytes, &length) : -ENOENT;
    error =
        error == 0 ? pass(carrier, message, bytes, length) : refuse(carrier, message->value, error);
    free(bytes);
    return error;
}

/* A list of what was renamed. */
static int renamed(struct carrier *carrier, const struct portus_message *message, int fd)
{
    struct listing listing = {0};
    int error = 0;

    if (listing_sealed(fd) && listing_load(&listing, fd) == 0)
        error = pass(carrier, message, listing.bytes, listing.length);
    else
        error = done(carrier, message->value, -ENOENT);
    listing_free(&listing);
    return error;
}

/* One message of the agent's, or of portusctl's. -EAGAIN: there is none. */
static int hear_local(struct carrier *carrier)
{
    static char bytes[PORTUS_STORE_BYTES];
    struct portus_message message;
    int fds[PORTUS_MESSAGE_FDS], error;
    unsigned count = 0, used = 0;

    error = portus_message_receive_any(carrier->local, &message, fds, &count, bytes, sizeof(bytes));
    if (error != 0)
        return error;
    switch (message.op) {
    case PORTUS_OP_STORE_FILE:
        if (count == 0)
            return -EPROTO;
        used = 1;
        error = take_file(carrier, &message, fds[0], count > 1 ? fds[1] : -1);
        break;
    case PORTUS_OP_STORE_RING:
        used = count > 0;
        error = take_ring(carrier, &message, used ? fds[0] : -1);
        break;
    case PORTUS_OP_STORE_DRAFT:
        used = count > 0;
        error = take_draft(carrier, &message, used ? fds[0] : -1);
        break;
    case PORTUS_OP_STORE_SEAL:
        error = seal(carrier, &message);
        break;
    case PORTUS_OP_STORE_RENAMED:
        error = count > 0 ? renamed(carrier, &message, fds[0]) : -EPROTO;
        break;
    case PORTUS_OP_STORE_CANCEL:
        offers_drop(&carrier->offers, OFFER_FILE, message.value);
        error = done(carrier, message.value, -ECANCELED);
        if (error == 0)
            error = pass(carrier, &message, NULL, 0);
        break;
    case PORTUS_OP_STORE_IMPORT:
    case PORTUS_OP_STORE_BYTES:
        error = pass(carrier, &message, bytes, message.flags);
        break;
    case PORTUS_OP_STORE_DROP:
        offers_drop(&carrier->offers, OFFER_DRAFT, message.value);
        /* fall through */
    default:
        error = pass(carrier, &message, NULL, 0);
    }
    for (unsigned i = used; i < count; i++)
        close(fds[i]);
    return error;
}

/* ---- from the store ---- */

/* Whether a file is still what it was: its lease says so, and the clock of file times has moved
 * on, so that a later change shows. */
static int check(struct carrier *carrier, uint32_t id)
{
    struct portus_message answer = {.op = PORTUS_OP_FAR_STATE, .value = id};
    int fd = offers_find(&carrier->offers, OFFER_FILE, id), error;
    void *bytes = NULL;
    size_t length = 0;
    struct timespec now;

    error = fd >= 0 ? offers_describe(fd, -1, &bytes, &length) : -ESTALE;
    for (int64_t age = 0; error == 0 && age >= 0 && age < TICK_NS;) {
        const struct portus_far_file *file = bytes;

        clock_gettime(CLOCK_REALTIME, &now);
        age = portus_nanoseconds(&now) - file->ctime;
        if (age >= 0 && age < TICK_NS)
            usleep(1000);
    }
    if (error == 0 && fcntl(fd, F_GETLEASE) != F_RDLCK)
        error = -ESTALE;
    answer.error = error;
    error = pass(carrier, &answer, bytes, error == 0 ? length : 0);
    free(bytes);
    return error;
}

/* One message of the store's. -EAGAIN: there is none. */
static int hear_store(struct carrier *carrier)
{
    struct portus_message message;
    const void *bytes;
    size_t length;
    int error = wire_receive(carrier->store.wire, &message, &bytes, &length);

    if (error != 0)
        return error;
    carrier->asked = 0;
    error = carrier->store.kind->hear(carrier->store.lane, &message, bytes, length);
    if (error == 0)
        error = carrier->error;
    if (error != -ENOMSG)
        return error;
    if (length != 0)
        return -EPROTO;
    switch (message.op) {
    case PORTUS_OP_FAR_CHECK:
        return check(carrier, message.value);
    case PORTUS_OP_STORE_DONE:
        if (message.value == ALIVE)
            return 0;
        /* Closed before it is said: the next save wants to be the only one who has it open. */
        offers_drop(&carrier->offers, OFFER_FILE, message.value);
        if (message.error != -EAGAIN)
            offers_drop(&carrier->offers, OFFER_DRAFT, message.value);
        break;
    case PORTUS_OP_STORE_PULLED:
        break;
    default:
        return -EPROTO;
    }
    message.length = sizeof(message);
    return give(carrier, &message, NULL);
}

/* ---- the loop ---- */

static int keep_alive(struct carrier *carrier)
{
    struct portus_message ask = {.op = PORTUS_OP_STORE_ALIVE, .value = ALIVE};
    uint64_t silent = portus_now() - wire_heard(carrier->store.wire);

    if (silent > DEAD_NS)
        return -ETIMEDOUT;
    if (silent < ASK_NS || carrier->asked != 0)
        return 0;
    carrier->asked = portus_now();
    return pass(carrier, &ask, NULL, 0);
}

static int turn(struct carrier *carrier)
{
    struct wire *wire = carrier->store.wire;
    struct pollfd events[2 + 8];
    bool ready, full = wire_queued(wire) > QUEUED;
    unsigned count = 2;
    int error = 0;

    events[0] = (struct pollfd){.fd = full ? -1 : carrier->local, .events = POLLIN};
    events[1] = (struct pollfd){.fd = wire_descriptor(wire), .events = wire_events(wire, &ready)};
    count += carrier->store.kind->watch(carrier->store.lane, events + 2, 8, &ready);
    if (poll(events, count, ready ? 0 : 1000) < 0 && errno != EINTR)
        return -errno;
    error = carrier->store.kind->turn(carrier->store.lane);
    if (error == 0 && carrier->error != 0)
        error = carrier->error;
    /* A file that somebody waits for comes first: it is the agent's that says so. */
    for (unsigned i = 0; i < MESSAGES_A_TURN && error == 0 && events[0].revents != 0; i++)
        error = hear_local(carrier);
    if (error == -EAGAIN)
        error = 0;
    for (unsigned i = 0; i < MESSAGES_A_TURN && error == 0; i++)
        error = hear_store(carrier);
    if (error == -EAGAIN)
        error = 0;
    if (error == 0)
        error = keep_alive(carrier);
    return error;
}

int carrier_run(int socket, const char *stores, unsigned first, const char *key)
{
    struct carrier carrier = {.local = socket, .client = {.pushed = pushed}};
    struct portus_message hello, welcome = portus_message_make(PORTUS_OP_WELCOME);
    unsigned count = 0;
    int fds[PORTUS_MESSAGE_FDS], error;

    carrier.client.self = &carrier;
    error = portus_message_receive(socket, &hello, fds, &count, HELLO_MS);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    if (error != 0 || hello.op != PORTUS_OP_HELLO)
        return 1;
    error = carrier_join(&carrier.store, stores, first, key, &hello, &carrier.client);
    welcome.error = error;
    if (error == 0) {
        welcome.flags = carrier.store.welcome.flags;
        welcome.value = carrier.store.number;
    }
    if (give(&carrier, &welcome, NULL) != 0 || error != 0)
        return 1;
    log_info("connected to %s as %s", wire_peer(carrier.store.wire), wire_name(carrier.store.wire));
    carrier.offers.kind = carrier.store.kind;
    carrier.offers.lane = carrier.store.lane;
    while (error == 0)
        error = turn(&carrier);
    if (error != -ECONNRESET)
        log_info("%s: %s", wire_peer(carrier.store.wire), portus_address_why(error));
    offers_drop_all(&carrier.offers);
    carrier.store.kind->close(carrier.store.lane);
    wire_close(carrier.store.wire);
    close(socket);
    return error == -ECONNRESET ? 0 : 1;
}
