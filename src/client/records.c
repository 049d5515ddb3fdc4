/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * records.c -- one record of the log: admitted, given space, reserved, made ready
 *
 * Order of the two swaps in reserve: the session's head first, which gives the
 * record its place, then the file's `last`. A file that was stopped in between does
 * not count on the record, and the record is made an empty one. See ring.h.
 */
#include "client/records.h"

#include <errno.h>

#include "client/chunks.h"

void portus_records_publish(struct portus_writer *writer, uint64_t sequence,
                            const struct portus_record *content)
{
    struct portus_record *record = &writer->record[sequence % PORTUS_RECORDS];

    record->offset = content->offset;
    record->data = content->data;
    record->length = content->length;
    record->file = content->file;
    atomic_store_explicit(&record->stamp, sequence + 1, memory_order_release);
    portus_link_wake(&writer->link);
}

/* Records below it are through with. The order of the two: see ring.h. */
static uint64_t through(const struct portus_session *session)
{
    uint64_t tail = atomic_load(&session->tail), claimed = atomic_load(&session->claimed);

    return tail < claimed ? tail : claimed;
}

/* Nothing is free. If only a store is in the way, it need not be. */
static void starve(struct portus_session *session)
{
    if (atomic_load(&session->claimed) < atomic_load(&session->tail))
        atomic_store(&session->starved, 1);
}

int portus_records_admit(struct portus_writer *writer)
{
    struct portus_session *session = writer->session;
    uint64_t tail = atomic_load(&session->tail), free = through(session), pending;

    if (atomic_load(&writer->gone))
        return -ESHUTDOWN;
    if (writer->head - free >= PORTUS_RECORDS) {
        starve(session);
        return 0;
    }
    if (writer->head == free)
        writer->burst = writer->chunks.taken;
    pending = atomic_load(&session->captured) - atomic_load(&session->drained);
    if (pending > atomic_load(&writer->link.control->undrained_limit) && writer->head != tail)
        return 0;
    if (atomic_load(&session->head) != writer->head << 1) /* the ring is being made smaller */
        return atomic_load(&session->state) == PORTUS_SESSION_ACTIVE ? 0 : -ESHUTDOWN;
    return 1;
}

uint32_t portus_records_take(struct portus_writer *writer, uint64_t offset, size_t length,
                             uint64_t *position)
{
    struct portus_session *session = writer->session;
    uint32_t taken =
        portus_chunks_take(&writer->chunks, offset, length, writer->head, through(session),
                           atomic_load(&session->ring_bytes), position);

    if (taken == 0)
        starve(session);
    return taken;
}

uint64_t portus_records_slot(struct portus_writer *writer, uint32_t in_page, uint64_t length,
                             uint64_t *position)
{
    struct portus_session *session = writer->session;
    uint64_t taken =
        portus_chunks_slot(&writer->chunks, in_page, length, writer->head, through(session),
                           atomic_load(&session->ring_bytes), position);

    if (taken == 0)
        starve(session);
    return taken;
}

int portus_records_reserve(struct portus_writer *writer, unsigned number, uint64_t position,
                           uint32_t length, uint64_t *sequence)
{
    struct portus_file *file = &writer->link.control->file[number];
    struct portus_session *session = writer->session;
    uint64_t head = writer->head << 1, last, room;

    if (!atomic_compare_exchange_strong(&session->head, &head, head + 2))
        return atomic_load(&session->state) == PORTUS_SESSION_ACTIVE ? 0 : -ESHUTDOWN;
    *sequence = writer->head++;
    portus_chunks_used(&writer->chunks, position, writer->head);

    last = atomic_load(&file->last);
    while (!(last & PORTUS_STOPPED))
        if (atomic_compare_exchange_weak(&file->last, &last, writer->head << 1))
            goto counted;
    /* Stopped in between: the file does not count on this record, so it says nothing. */
    portus_records_publish(writer, *sequence, &(struct portus_record){.length = 0, .file = number});
    return -ESTALE;

counted:
    atomic_fetch_add(&session->captured, length);
    room = (writer->chunks.taken - writer->burst) * PORTUS_CHUNK;
    if (room > atomic_load(&session->wanted))
        atomic_store(&session->wanted, room);
    return 1;
}
