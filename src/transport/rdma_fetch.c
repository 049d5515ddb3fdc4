/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_fetch.c -- a store's end: READs of its clients' rings, and pushes
 *
 * READs go straight to where they are wanted, if that may be (a pool on devdax), else into buffers
 * that are registered once and shared by all lanes; from there bytes go on into the pool, which
 * has its own ways to make them durable and looks at each byte for its CRC anyway. What a
 * completion says is that bytes are here, not that they outlive a power cut.
 *
 * Reads wait in the order in which they were asked for, as they are to end in it: for the step of
 * the ring that they are in, for a buffer, for a link.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/log.h"
#include "transport/rdma.h"

/* ---- steps ---- */

static const struct rdma_step *step_of(const struct lane *lane, uint32_t ring, uint64_t offset)
{
    /* The newest first: it may reach further. */
    for (unsigned i = lane->step_count; i-- > 0;) {
        const struct rdma_step *step = &lane->steps[i];

        if (step->ring == ring && offset >= step->offset && offset - step->offset < step->length)
            return step;
    }
    return NULL;
}

int rdma_want(struct lane *lane, int64_t what, uint32_t id, uint64_t offset, uint32_t length)
{
    const struct portus_message message = {
        .op = PORTUS_OP_RDMA_WANT, .value = id, .size = offset, .flags = length, .time = what};

    return wire_send(lane->wire, &message, NULL, 0);
}

/* ---- reads ---- */

static struct transport_read *pop(struct lane *lane)
{
    lane->waiting--;
    return transport_take(&lane->reads);
}

/* The first of those that wait; false: it has to, still. */
static bool give(struct lane *lane)
{
    struct transport_read *read = lane->reads.first;
    struct rdma_flight *flight = &lane->flight[lane->out % RDMA_READS];
    uint64_t offset = read->offset, end = offset + read->length;
    unsigned buffer = RDMA_BUFFERS;
    const struct rdma_step *step;
    uint8_t *to = read->to;

    if (lane->asked || lane->out - lane->in == RDMA_READS)
        return false;
    for (; offset < end; offset = step->offset + step->length) {
        step = step_of(lane, read->id, offset);
        if (step != NULL)
            continue;
        lane->asked = true;
        lane->failed =
            rdma_want(lane, PORTUS_RDMA_RING, read->id, offset, (uint32_t)(end - offset));
        return false;
    }
    if (to == NULL) {
        buffer = rdma_buffer_take(lane, RDMA_FOR_READ);
        if (buffer == RDMA_BUFFERS)
            return false;
        to = rdma_buffer(RDMA_FOR_READ, buffer);
    }
    *flight = (struct rdma_flight){.read = read, .ring = read->id, .buffer = buffer};
    for (offset = read->offset; offset < end;) {
        struct verbs_source from;
        uint64_t n;
        int error;

        step = step_of(lane, read->id, offset);
        from = step->source;
        from.address += offset - step->offset;
        n = step->offset + step->length - offset;
        n = n < end - offset ? n : end - offset;
        error =
            rdma_ops->read(lane->link, &from, to + (offset - read->offset), (uint32_t)n, lane->out);
        if (error != 0) {
            /* A link takes more jobs than there are buffers: it has broken. */
            rdma_ops->break_off(lane->link, error, "the link takes no reads");
            rdma_buffer_give(RDMA_FOR_READ, buffer);
            return false;
        }
        flight->parts++;
        offset += n;
    }
    lane->out++;
    pop(lane);
    return true;
}

static void give_all(struct lane *lane)
{
    while (lane->ready && lane->failed == 0 && lane->reads.first != NULL && give(lane))
        ;
}

int rdma_fetch(struct lane *lane, struct transport_read *read)
{
    if (lane->waiting + (lane->out - lane->in) >= RDMA_READS)
        return -EAGAIN;
    if (read->length == 0 || read->length > TRANSPORT_READ ||
        read->offset > UINT64_MAX - read->length)
        return -EINVAL;
    transport_put(&lane->reads, read);
    lane->waiting++;
    give_all(lane);
    return 0;
}

int rdma_hear_step(struct lane *lane, const struct portus_message *message, const void *bytes,
                   size_t length)
{
    struct portus_rdma_step step = {0};
    struct rdma_step *steps;

    if (message->error > 0 || length != (message->error == 0 ? sizeof(step) : 0))
        return -EPROTO;
    if (lane->link == NULL)
        return 0; /* of one that has broken meanwhile */
    memcpy(&step, bytes, length);
    if (message->time == PORTUS_RDMA_FILE)
        return rdma_file_step(lane, message, &step);
    if (message->time == PORTUS_RDMA_SLOTS) {
        if (!lane->slots_asked || lane->slots_known)
            return -EPROTO;
        if (message->error != 0)
            return message->error;
        lane->slots_far = rdma_source_of(&step);
        lane->slots_known = true;
        return 0;
    }
    if (!lane->asked)
        return -EPROTO;
    lane->asked = false;
    if (message->error != 0) {
        if (lane->reads.first != NULL && lane->reads.first->id == message->value) {
            struct transport_read *read = pop(lane);

            read->done(read, NULL, message->error);
        }
        give_all(lane);
        return 0;
    }
    if (step.length == 0 || step.offset > UINT64_MAX - step.length ||
        lane->step_count == RDMA_STEPS || message->size < step.offset ||
        message->size - step.offset >= step.length)
        return -EPROTO;
    steps = realloc(lane->steps, (lane->step_count + 1) * sizeof(*steps));
    if (steps == NULL)
        return -ENOMEM;
    lane->steps = steps;
    steps[lane->step_count++] = (struct rdma_step){.ring = message->value,
                                                   .offset = step.offset,
                                                   .length = step.length,
                                                   .source = rdma_source_of(&step)};
    give_all(lane);
    return 0;
}

/* ---- rings that go ---- */

static bool flies(const struct lane *lane, uint32_t ring)
{
    for (uint64_t i = lane->in; i < lane->out; i++) {
        const struct rdma_flight *flight = &lane->flight[i % RDMA_READS];

        if (flight->read != NULL && flight->ring == ring)
            return true;
    }
    return false;
}

static void leave(struct lane *lane)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < lane->leavings; i++) {
        if (flies(lane, lane->leaving[i]))
            lane->leaving[kept++] = lane->leaving[i];
        else if (lane->failed == 0)
            lane->failed = rdma_say(lane, PORTUS_OP_RDMA_LEFT, lane->leaving[i], 0);
    }
    lane->leavings = kept;
}

int rdma_hear_gone(struct lane *lane, uint32_t ring)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < lane->step_count; i++)
        if (lane->steps[i].ring != ring)
            lane->steps[kept++] = lane->steps[i];
    lane->step_count = kept;
    if (lane->leavings == sizeof(lane->leaving) / sizeof(lane->leaving[0]))
        return -EPROTO;
    lane->leaving[lane->leavings++] = ring;
    leave(lane);
    return lane->failed;
}

/* ---- turns ---- */

void rdma_fetch_turn(struct lane *lane)
{
    uint64_t cookie;

    while (lane->link != NULL && rdma_ops->done(lane->link, &cookie)) {
        struct rdma_flight *flight = &lane->flight[lane->in % RDMA_READS];
        struct rdma_flight ended;

        if (cookie != lane->in) {
            lane->failed = -EIO;
            return;
        }
        if (--flight->parts > 0)
            continue;
        ended = *flight;
        lane->in++;
        lane->used = true;
        if (ended.piece != NULL) {
            ended.piece->through = true;
            lane->bytes_read += ended.piece->read->length;
            continue;
        }
        if (ended.read == NULL) {
            rdma_buffer_give(RDMA_FOR_PUSH, ended.buffer);
            continue;
        }
        lane->bytes_read += ended.read->length;
        if (ended.buffer == RDMA_BUFFERS) {
            lane->bytes_straight += ended.read->length;
            ended.read->done(ended.read, ended.read->to, 0);
            continue;
        }
        ended.read->done(ended.read, rdma_buffer(RDMA_FOR_READ, ended.buffer), 0);
        rdma_buffer_give(RDMA_FOR_READ, ended.buffer);
    }
    leave(lane);
    give_all(lane);
    rdma_file_turn(lane);
}

int rdma_fetch_push(struct lane *lane, const struct portus_message *message, const void *bytes,
                    size_t length)
{
    struct rdma_flight *flight = &lane->flight[lane->out % RDMA_READS];
    struct verbs_source to = lane->slots_far;
    unsigned buffer;
    uint8_t *from;
    int error;

    if (lane->failed != 0)
        return lane->failed;
    if (length > TRANSPORT_PUSH)
        return -EINVAL;
    if (lane->ready && !lane->slots_asked) {
        lane->slots_asked = true;
        error = rdma_want(lane, PORTUS_RDMA_SLOTS, 0, 0, 0);
        if (error != 0)
            return error;
    }
    if (!lane->slots_known || lane->link == NULL ||
        lane->pushed - lane->credit == PORTUS_RDMA_PUSHES || lane->out - lane->in == RDMA_READS)
        return -EAGAIN;
    buffer = rdma_buffer_take(lane, RDMA_FOR_PUSH);
    if (buffer == RDMA_BUFFERS)
        return -EAGAIN;
    from = rdma_buffer(RDMA_FOR_PUSH, buffer);
    memcpy(from, message, sizeof(*message));
    memcpy(from + sizeof(*message), bytes, length);
    to.address += (uint64_t)(lane->pushed % PORTUS_RDMA_PUSHES) * PORTUS_RDMA_SLOT;
    error = rdma_ops->push(lane->link, &to, from, (uint32_t)(sizeof(*message) + length),
                           lane->pushed, lane->out);
    if (error != 0) {
        rdma_buffer_give(RDMA_FOR_PUSH, buffer);
        return error == -ENOTCONN ? -EAGAIN : error;
    }
    *flight = (struct rdma_flight){.buffer = buffer, .parts = 1};
    lane->pushed++;
    lane->bytes_pushed += length;
    lane->out++;
    return 0;
}

/* What was being read is read again, before what waits. */
int rdma_fetch_reset(struct lane *lane)
{
    bool lost = lane->pushed != lane->credit && lane->slots_known;

    while (lane->out > lane->in) {
        const struct rdma_flight *flight = &lane->flight[--lane->out % RDMA_READS];

        if (flight->piece != NULL)
            continue;
        if (flight->read == NULL) {
            rdma_buffer_give(RDMA_FOR_PUSH, flight->buffer);
            lost = true;
            continue;
        }
        rdma_buffer_give(RDMA_FOR_READ, flight->buffer);
        transport_put_back(&lane->reads, flight->read);
        lane->waiting++;
    }
    rdma_file_fetch_reset(lane);
    lane->step_count = 0;
    lane->asked = lane->slots_asked = lane->slots_known = false;
    leave(lane);
    return lost ? -ECONNRESET : 0;
}

void rdma_fetch_end(struct lane *lane)
{
    if (lane->bytes_read + lane->bytes_pushed > 0)
        log_debug("%s: %llu bytes were pulled and %llu pushed by RDMA, %llu came straight into the "
                  "pool",
                  wire_peer(lane->wire), (unsigned long long)lane->bytes_read,
                  (unsigned long long)lane->bytes_pushed, (unsigned long long)lane->bytes_straight);
    rdma_fetch_reset(lane);
    free(lane->steps);
}
