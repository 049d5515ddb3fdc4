/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_files.c -- files, which a device cannot read: their client puts pieces where it can
 *
 * The store asks for a piece, the client reads it from the file into one of a few registered
 * places and says which, the store READs it and gives the place back. Both ends are here, as it is
 * one conversation. A link that breaks takes all places with it: what was asked for is asked for
 * again.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/rdma.h"

/* ---- the client ---- */

static int open_places(struct lane *lane)
{
    const size_t length = (size_t)PORTUS_RDMA_PIECES * TRANSPORT_READ;
    char why[VERBS_WHY] = "";
    void *memory;
    int error;

    if (lane->places == NULL) {
        memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return -errno;
        lane->places = memory;
    }
    if (lane->places_open)
        return 0;
    error = rdma_ops->expose(lane->link, lane->places, length, &lane->places_at, why);
    if (error != 0)
        rdma_fail(lane, error, why);
    lane->places_open = error == 0;
    return error;
}

int rdma_file_want(struct lane *lane, const struct portus_message *message)
{
    struct portus_message answer = {
        .op = PORTUS_OP_RDMA_STEP, .value = message->value, .time = PORTUS_RDMA_FILE};
    struct portus_rdma_step step;
    struct verbs_source at;
    uint32_t place = 0;

    if (message->flags == 0 || message->flags > TRANSPORT_READ || message->size > INT64_MAX)
        return -EPROTO;
    while (place < PORTUS_RDMA_PIECES && lane->place_used[place])
        place++;
    if (place == PORTUS_RDMA_PIECES)
        return -EPROTO;
    answer.error = open_places(lane);
    if (answer.error == 0)
        answer.error =
            transport_copy(lane->files, TRANSPORT_FILE, message->value, message->size,
                           message->flags, lane->places + (size_t)place * TRANSPORT_READ);
    if (answer.error != 0)
        return wire_send(lane->wire, &answer, NULL, 0);
    lane->place_used[place] = true;
    answer.size = place;
    at = lane->places_at;
    at.address += (uint64_t)place * TRANSPORT_READ;
    step = rdma_step_of(message->size, message->flags, &at);
    return wire_send(lane->wire, &answer, &step, sizeof(step));
}

int rdma_file_free(struct lane *lane, uint32_t place)
{
    if (place >= PORTUS_RDMA_PIECES)
        return -EPROTO;
    lane->place_used[place] = false; /* perhaps of a link of before: then it was free already */
    return 0;
}

void rdma_file_offer_reset(struct lane *lane)
{
    lane->places_open = false;
    memset(lane->place_used, 0, sizeof(lane->place_used));
}

/* ---- the store ---- */

static struct rdma_piece *piece(struct lane *lane, uint64_t number)
{
    return &lane->piece[number % PORTUS_RDMA_PIECES];
}

static void ask(struct lane *lane)
{
    while (lane->ready && lane->failed == 0 && lane->file_reads.first != NULL &&
           lane->pieces - lane->pieces_ended < PORTUS_RDMA_PIECES) {
        struct transport_read *read = transport_take(&lane->file_reads);

        *piece(lane, lane->pieces++) = (struct rdma_piece){.read = read, .buffer = RDMA_BUFFERS};
        lane->failed = rdma_want(lane, PORTUS_RDMA_FILE, read->id, read->offset, read->length);
    }
}

int rdma_file_fetch(struct lane *lane, struct transport_read *read)
{
    if (read->length == 0 || read->length > TRANSPORT_READ)
        return -EINVAL;
    transport_put(&lane->file_reads, read);
    ask(lane);
    return 0;
}

int rdma_file_step(struct lane *lane, const struct portus_message *message,
                   const struct portus_rdma_step *step)
{
    struct rdma_piece *next = piece(lane, lane->pieces_answered);

    if (lane->pieces_answered == lane->pieces || next->read->id != message->value)
        return -EPROTO;
    next->answered = true;
    next->error = message->error;
    lane->pieces_answered++;
    if (next->error != 0)
        return 0;
    if (step->offset != next->read->offset || step->length != next->read->length ||
        message->size >= PORTUS_RDMA_PIECES)
        return -EPROTO;
    next->place = (uint32_t)message->size;
    next->source = rdma_source_of(step);
    return 0;
}

/* READs those that have been answered. */
static void begin(struct lane *lane)
{
    while (lane->link != NULL && lane->failed == 0 && lane->pieces_begun < lane->pieces_answered &&
           lane->out - lane->in < RDMA_READS) {
        struct rdma_piece *next = piece(lane, lane->pieces_begun);
        int error;

        if (next->error == 0) {
            next->buffer = rdma_buffer_take(lane, RDMA_FOR_READ);
            if (next->buffer == RDMA_BUFFERS)
                return;
            error =
                rdma_ops->read(lane->link, &next->source, rdma_buffer(RDMA_FOR_READ, next->buffer),
                               next->read->length, lane->out);
            if (error != 0) {
                rdma_ops->break_off(lane->link, error, "the link takes no reads");
                return;
            }
            lane->flight[lane->out++ % RDMA_READS] =
                (struct rdma_flight){.piece = next, .parts = 1};
        }
        lane->pieces_begun++;
    }
}

void rdma_file_turn(struct lane *lane)
{
    begin(lane);
    while (lane->failed == 0 && lane->pieces_ended < lane->pieces_begun) {
        struct rdma_piece ended = *piece(lane, lane->pieces_ended);

        if (ended.error == 0 && !ended.through)
            break;
        lane->pieces_ended++;
        if (ended.error == 0)
            lane->failed = rdma_say(lane, PORTUS_OP_RDMA_FREE, ended.place, 0);
        ended.read->done(ended.read,
                         ended.error == 0 ? rdma_buffer(RDMA_FOR_READ, ended.buffer) : NULL,
                         ended.error);
        if (ended.error == 0)
            rdma_buffer_give(RDMA_FOR_READ, ended.buffer);
    }
    ask(lane);
}

void rdma_file_fetch_reset(struct lane *lane)
{
    while (lane->pieces > lane->pieces_ended) {
        struct rdma_piece *last = piece(lane, --lane->pieces);

        rdma_buffer_give(RDMA_FOR_READ, last->buffer);
        transport_put_back(&lane->file_reads, last->read);
    }
    lane->pieces_answered = lane->pieces_begun = lane->pieces;
}
