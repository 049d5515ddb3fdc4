/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma.c -- the lane whose bytes go by RDMA
 *
 * A link (verbs.h) is made beside the control connection, by a secret that only its two ends
 * know. What a client's memory is called there is said over the control connection, piece by piece
 * as the store wants it: so only what is read is pinned, once.
 *
 * A link that breaks is replaced once, and what was being read is read again; one that breaks
 * without having been of any use ends the session. The client dials; each link has a number, so
 * that the two speak of the same one.
 *
 * The client hangs up first: the store, which reads and writes, was told when it has sent last.
 */
#include "transport/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define VAIN 2 /* links in a row that were of no use: then it is over */

const struct verbs_ops *rdma_ops;
static struct verbs *verbs;
static pid_t process; /* whose it is: a forked child has none */
static bool moved;    /* something has happened since it was waited for last */

/* The process's part, once. */
static int begin(void)
{
    /* One variable, which the table of the environment names for people. */
    const char *devices = getenv("PORTUS_RDMA_DEV");
    struct verbs_options options = {0};
    char why[VERBS_WHY] = "";
    int error = 0;

    if (verbs != NULL)
        return process == getpid() ? 0 : -ENODEV;
    if (devices != NULL)
        strncpy(options.devices, devices, sizeof(options.devices) - 1);
    rdma_ops = verbs_load(why);
    error = rdma_ops == NULL ? -ENODEV : rdma_ops->begin(&verbs, &options, why);
    if (error != 0) {
        log_error("rdma://: %s", why);
        return -ENODEV;
    }
    process = getpid();
    return 0;
}

static int start_listening(const struct portus_address *address, const struct addrinfo *resolved)
{
    char why[VERBS_WHY] = "";
    int error = begin();

    if (error != 0)
        return error;
    error = rdma_buffers_begin(verbs, why);
    if (error == 0)
        error = rdma_ops->listen(verbs, resolved->ai_addr, resolved->ai_addrlen, why);
    if (error != 0)
        log_error("%s: %s", address->text, why);
    return error == 0 ? 0 : -ENODEV;
}

static int keep(void *memory, size_t length)
{
    char why[VERBS_WHY] = "";
    int error = rdma_ops->keep(verbs, memory, length, why);

    if (error != 0)
        log_warn("RDMA cannot read straight into the pool: %s: what comes goes by buffers", why);
    return error;
}

/* ---- links ---- */

void rdma_fail(struct lane *lane, int error, const char *why)
{
    if (lane->failed == 0)
        log_warn("%s: RDMA: %s", wire_peer(lane->wire), why);
    lane->failed = error;
}

int rdma_say(struct lane *lane, enum portus_op op, uint32_t value, int error)
{
    const struct portus_message message = {.op = (uint16_t)op, .value = value, .error = error};

    return wire_send(lane->wire, &message, NULL, 0);
}

/* Another secret for each link. */
static void secret_of(const struct lane *lane, unsigned number, uint8_t secret[VERBS_SECRET])
{
    memcpy(secret, lane->secret, VERBS_SECRET);
    for (unsigned i = 0; i < sizeof(number); i++)
        secret[i] ^= (uint8_t)(number >> 8 * i);
}

static int dial(struct lane *lane)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    uint8_t secret[VERBS_SECRET];
    char why[VERBS_WHY] = "";
    int error;

    if (getpeername(wire_descriptor(lane->wire), (struct sockaddr *)&peer, &length) < 0)
        return -errno;
    secret_of(lane, lane->number, secret);
    error = rdma_ops->dial(verbs, (struct sockaddr *)&peer, length, secret, &lane->link, why);
    if (error != 0)
        rdma_fail(lane, error, why);
    return error;
}

static int expect(struct lane *lane)
{
    uint8_t secret[VERBS_SECRET];

    secret_of(lane, lane->number, secret);
    return rdma_ops->expect(verbs, secret, &lane->link);
}

/* Its link is gone, if it has one: what is left of it goes. */
static void unlink_it(struct lane *lane)
{
    if (lane->link == NULL)
        return;
    rdma_ops->close(lane->link);
    lane->link = NULL;
    lane->vain = lane->used ? 0 : lane->vain + 1;
    lane->ready = lane->used = false;
    if (lane->client != NULL)
        rdma_offer_reset(lane);
    else if (rdma_fetch_reset(lane) != 0)
        lane->failed =
            -ECONNRESET; /* while bytes were pushed by it; or its client has all it wanted */
}

static void look_after(struct lane *lane)
{
    char why[VERBS_WHY];
    int error;

    if (lane->link == NULL)
        return;
    if (!lane->ready && rdma_ops->state(lane->link) == VERBS_READY) {
        lane->ready = true;
        lane->used |= lane->client != NULL; /* what the store reads is not seen here */
        log_debug("%s: RDMA link %u is there", wire_peer(lane->wire), lane->number);
    }
    if (rdma_ops->state(lane->link) != VERBS_BROKEN)
        return;
    error = rdma_ops->error(lane->link);
    strcpy(why, rdma_ops->why(lane->link));
    log_info("%s: RDMA link %u: %s", wire_peer(lane->wire), lane->number, why);
    unlink_it(lane);
    if (lane->failed == 0 && lane->vain >= VAIN)
        rdma_fail(lane, error, why);
    if (lane->failed != 0)
        return;
    if (lane->client != NULL)
        lane->failed = rdma_say(lane, PORTUS_OP_RDMA_AGAIN, ++lane->number, 0);
    else
        lane->failed = rdma_say(lane, PORTUS_OP_RDMA_LOST, lane->number, 0);
}

/* The client's end of the store's broken one. */
static int hear_lost(struct lane *lane, uint32_t number)
{
    if (number == lane->number && lane->link != NULL) {
        unlink_it(lane);
        return rdma_say(lane, PORTUS_OP_RDMA_AGAIN, ++lane->number, 0);
    }
    return 0;
}

static int hear_again(struct lane *lane, uint32_t number)
{
    int error;

    if (number != lane->number + 1)
        return -EPROTO;
    unlink_it(lane);
    if (lane->failed == 0 && lane->vain >= VAIN)
        rdma_fail(lane, -ECONNRESET, "links break without having been of any use");
    if (lane->failed != 0)
        return lane->failed;
    lane->number = number;
    error = expect(lane);
    return error != 0 ? error : rdma_say(lane, PORTUS_OP_RDMA_AWAIT, number, 0);
}

static int hear_await(struct lane *lane, uint32_t number)
{
    if (number != lane->number || lane->link != NULL)
        return -EPROTO;
    return dial(lane);
}

/* ---- the lane ---- */

static void close_lane(struct lane *lane)
{
    if (lane->link != NULL)
        rdma_ops->close(lane->link);
    lane->link = NULL;
    if (lane->client != NULL)
        rdma_offer_end(lane);
    else
        rdma_fetch_end(lane);
    if (lane->other != NULL)
        transport_tcp.close(lane->other);
    explicit_bzero(lane->secret, sizeof(lane->secret));
    free(lane);
}

static int open_lane(struct lane **out, struct wire *wire, const struct transport_client *client)
{
    struct lane *lane;
    int error = begin();

    if (error != 0)
        return error;
    lane = calloc(1, sizeof(*lane));
    if (lane == NULL)
        return -ENOMEM;
    _Static_assert(WIRE_SECRET == VERBS_SECRET, "one secret");
    lane->wire = wire;
    lane->client = client;
    lane->number = 1;
    lane->owner = wire_owner(wire);
    error = wire_secret(wire, lane->secret);
    if (error == 0)
        error = transport_tcp.open(&lane->other, wire, client);
    if (error == 0)
        error = client != NULL ? dial(lane) : expect(lane);
    if (error != 0) {
        close_lane(lane);
        return error;
    }
    *out = lane;
    return 0;
}

/*
 * Nothing may be waited for that does not come by itself: what was asked for since the last turn
 * goes out here. And a turn of one lane takes note of what has happened to all, and may give
 * buffers back that another one waits for: so it is waited only after turns in which nothing
 * happened at all.
 */
static unsigned watch(struct lane *lane, struct pollfd *events, unsigned room, bool *ready)
{
    unsigned count = transport_tcp.watch(lane->other, events, room, ready);

    rdma_ops->give(verbs);
    *ready |= moved || (lane->link != NULL && rdma_ops->state(lane->link) == VERBS_BROKEN);
    moved = false;
    if (count < room)
        events[count++] = (struct pollfd){.fd = rdma_ops->descriptor(verbs), .events = POLLIN};
    return count;
}

static int turn(struct lane *lane)
{
    moved |= rdma_ops->turn(verbs);
    if (lane->client != NULL)
        rdma_offer_turn(lane);
    else
        rdma_fetch_turn(lane);
    look_after(lane);
    return lane->failed != 0 ? lane->failed : transport_tcp.turn(lane->other);
}

static int hear(struct lane *lane, const struct portus_message *message, const void *bytes,
                size_t length)
{
    bool store = lane->client == NULL;

    if (message->op < PORTUS_OP_RDMA_WANT || message->op > PORTUS_OP_RDMA_FREE)
        return transport_tcp.hear(lane->other, message, bytes, length);
    moved = true; /* what that allows is done in the next turn */
    if (message->op == PORTUS_OP_RDMA_STEP && store)
        return rdma_hear_step(lane, message, bytes, length);
    if (length != 0)
        return -EPROTO;
    switch (message->op) {
    case PORTUS_OP_RDMA_WANT:
        /* The store's end of a link is there when ours is, which may not have been looked at. */
        if (!store && lane->link != NULL && rdma_ops->state(lane->link) == VERBS_BEGINS)
            rdma_ops->turn(verbs);
        return store ? -EPROTO : rdma_hear_want(lane, message);
    case PORTUS_OP_RDMA_LEFT:
        if (!store)
            rdma_hear_left(lane, message->value);
        return store ? -EPROTO : 0;
    case PORTUS_OP_RDMA_LOST:
        return store ? -EPROTO : hear_lost(lane, message->value);
    case PORTUS_OP_RDMA_AWAIT:
        return store ? -EPROTO : hear_await(lane, message->value);
    case PORTUS_OP_RDMA_FREE:
        return store ? -EPROTO : rdma_file_free(lane, message->value);
    case PORTUS_OP_RDMA_GONE:
        return store ? rdma_hear_gone(lane, message->value) : -EPROTO;
    case PORTUS_OP_RDMA_AGAIN:
        return store ? hear_again(lane, message->value) : -EPROTO;
    case PORTUS_OP_RDMA_TAKEN:
        if (!store || message->value - lane->credit > lane->pushed - lane->credit)
            return -EPROTO;
        lane->credit = message->value;
        return 0;
    default:
        return -EPROTO;
    }
}

static int offer(struct lane *lane, struct transport_source *source)
{
    if (source->what == TRANSPORT_RING)
        return rdma_offer(lane, source);
    transport_offer(&lane->files, source);
    return 0;
}

static void withdraw(struct lane *lane, struct transport_source *source)
{
    if (source->what == TRANSPORT_FILE)
        transport_withdraw(&lane->files, source);
    else
        rdma_unoffer(lane, source);
}

static int read_source(struct lane *lane, struct transport_read *read)
{
    return read->what == TRANSPORT_FILE ? rdma_file_fetch(lane, read) : rdma_fetch(lane, read);
}

const struct transport_kind transport_rdma = {
    .listen = start_listening,
    .keep = keep,
    .open = open_lane,
    .close = close_lane,
    .watch = watch,
    .turn = turn,
    .hear = hear,
    .offer = offer,
    .withdraw = withdraw,
    .read = read_source,
    .push = rdma_fetch_push,
};
