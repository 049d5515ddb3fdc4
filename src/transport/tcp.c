/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.c -- the lane that is the control connection itself
 *
 * The store asks for a range (FAR_FETCH), the client answers with its bytes (FAR_DATA), in
 * the order of the questions. Not for speed: every byte is copied and encrypted.
 *
 * A client answers as fast as the connection takes it, one at a time: what it was asked
 * for waits as questions, not as bytes. So a source that was withdrawn is not read any more,
 * and its questions are answered with an error.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "portus/ring.h"
#include "transport/transport.h"

#define QUESTIONS 256 /* of a store, under way at most */
#define QUEUED TRANSPORT_READ

struct question {
    uint32_t what, id, length;
    uint64_t offset;
};

struct lane {
    struct wire *wire;
    const struct transport_client *client; /* NULL: a store's */
    struct transport_source *sources;
    struct question question[QUESTIONS]; /* a client's: not answered yet; a ring */
    uint32_t asked, answered;
    struct transport_queue reads; /* a store's: under way */
    uint32_t under_way;
};

static int open_lane(struct lane **out, struct wire *wire, const struct transport_client *client)
{
    struct lane *lane = calloc(1, sizeof(*lane));

    if (lane == NULL)
        return -ENOMEM;
    lane->wire = wire;
    lane->client = client;
    *out = lane;
    return 0;
}

static void close_lane(struct lane *lane)
{
    free(lane);
}

static unsigned watch(struct lane *lane, struct pollfd *events, unsigned room, bool *ready)
{
    return 0; /* the wire is all there is */
}

/* ---- the client ---- */

static int offer(struct lane *lane, struct transport_source *source)
{
    transport_offer(&lane->sources, source);
    return 0;
}

static void withdraw(struct lane *lane, struct transport_source *source)
{
    transport_withdraw(&lane->sources, source);
}

static int answer(struct lane *lane, const struct question *question)
{
    struct portus_message message = {.op = PORTUS_OP_FAR_DATA,
                                     .value = question->id,
                                     .size = question->offset,
                                     .flags = question->length,
                                     .time = question->what};
    void *to;
    int error = wire_begin(lane->wire, &message, question->length, &to);

    if (error == 0) {
        error = transport_copy(lane->sources, question->what, question->id, question->offset,
                               question->length, to);
        if (error == 0)
            return wire_flush(lane->wire);
        wire_take_back(lane->wire, question->length);
    }
    message.error = error;
    return wire_send(lane->wire, &message, NULL, 0);
}

static int turn(struct lane *lane)
{
    int error = wire_flush(lane->wire);

    while (lane->client != NULL && lane->answered != lane->asked &&
           (error == 0 || error == -EAGAIN) && wire_queued(lane->wire) < QUEUED)
        error = answer(lane, &lane->question[lane->answered++ % QUESTIONS]);
    return error == -EAGAIN ? 0 : error;
}

static int hear_question(struct lane *lane, const struct portus_message *message)
{
    if (message->flags == 0 || message->flags > TRANSPORT_READ || message->size > INT64_MAX ||
        (message->time != TRANSPORT_RING && message->time != TRANSPORT_FILE) ||
        lane->asked - lane->answered == QUESTIONS)
        return -EPROTO;
    lane->question[lane->asked++ % QUESTIONS] = (struct question){
        .what = (uint32_t)message->time,
        .id = message->value,
        .length = message->flags,
        .offset = message->size,
    };
    return turn(lane);
}

/* ---- the store ---- */

static int hear_answer(struct lane *lane, const struct portus_message *message, const void *bytes,
                       size_t length)
{
    struct transport_read *read = lane->reads.first;

    if (read == NULL || message->value != read->id || message->size != read->offset ||
        message->flags != read->length || message->time != read->what || message->error > 0 ||
        length != (message->error == 0 ? read->length : 0))
        return -EPROTO;
    transport_take(&lane->reads);
    lane->under_way--;
    read->done(read, message->error == 0 ? bytes : NULL, message->error);
    return 0;
}

static int hear(struct lane *lane, const struct portus_message *message, const void *bytes,
                size_t length)
{
    if (message->op == PORTUS_OP_FAR_FETCH && lane->client != NULL)
        return length == 0 ? hear_question(lane, message) : -EPROTO;
    if (message->op == PORTUS_OP_FAR_DATA && lane->client == NULL)
        return hear_answer(lane, message, bytes, length);
    if (message->op == PORTUS_OP_STORE_BYTES && lane->client != NULL) {
        lane->client->pushed(lane->client->self, message, bytes, length);
        return 0;
    }
    return -ENOMSG;
}

static int read_source(struct lane *lane, struct transport_read *read)
{
    struct portus_message message = {.op = PORTUS_OP_FAR_FETCH,
                                     .value = read->id,
                                     .size = read->offset,
                                     .flags = read->length,
                                     .time = read->what};
    int error;

    if (lane->under_way == QUESTIONS)
        return -EAGAIN;
    error = wire_send(lane->wire, &message, NULL, 0);
    if (error != 0)
        return error;
    transport_put(&lane->reads, read);
    lane->under_way++;
    return 0;
}

static int push(struct lane *lane, const struct portus_message *message, const void *bytes,
                size_t length)
{
    if (wire_queued(lane->wire) >= QUEUED)
        return -EAGAIN;
    return wire_send(lane->wire, message, bytes, length);
}

const struct transport_kind transport_tcp = {
    .open = open_lane,
    .close = close_lane,
    .watch = watch,
    .turn = turn,
    .hear = hear,
    .offer = offer,
    .withdraw = withdraw,
    .read = read_source,
    .push = push,
};
