/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot.c -- room in the ring that is filled before it is known where its bytes go
 *
 * To the agent, and to a store, a record that refers to a slot is one like any other: its
 * bytes are in the ring, and they do not change before it is replayed. Until it is given back
 * `held` in the session keeps the agent from making the ring smaller, as in ahead.c.
 */
#include "client/slot.h"

#include "client/chunks.h"
#include "client/records.h"

bool portus_slot_take(struct portus_writer *writer, uint32_t in_page, uint64_t length,
                      struct portus_slot *slot)
{
    bool taken;

    atomic_fetch_add(&writer->session->held, 1);
    portus_lock(&writer->lock);
    taken = portus_records_admit(writer) > 0;
    if (taken) {
        slot->length = portus_records_slot(writer, in_page, length, &slot->position);
        taken = slot->length != 0;
    }
    if (taken)
        writer->lacked = 0;
    else
        atomic_fetch_sub(&writer->session->held, 1);
    portus_unlock(&writer->lock);
    return taken;
}

void portus_slot_lacked(struct portus_writer *writer, uint64_t length)
{
    struct portus_session *session = writer->session;
    uint64_t wanted;

    portus_lock(&writer->lock);
    writer->lacked += length;
    wanted = atomic_load(&session->ring_bytes) + writer->lacked * 8 / 7; /* a part is no slots */
    if (wanted <= PORTUS_RING_MAX && wanted > atomic_load(&session->wanted))
        atomic_store(&session->wanted, wanted);
    portus_unlock(&writer->lock);
}

void portus_slot_hold(struct portus_writer *writer, const struct portus_slot *slot)
{
    portus_lock(&writer->lock);
    portus_chunks_keep(&writer->chunks, slot->position, slot->length);
    atomic_fetch_add(&writer->session->held, 1);
    portus_unlock(&writer->lock);
}

void portus_slot_give(struct portus_writer *writer, const struct portus_slot *slot)
{
    portus_lock(&writer->lock);
    portus_chunks_give(&writer->chunks, slot->position, slot->length);
    atomic_fetch_sub(&writer->session->held, 1);
    portus_unlock(&writer->lock);
}

bool portus_slot_pending(struct portus_writer *writer)
{
    return !atomic_load(&writer->gone) &&
           atomic_load(&writer->session->tail) < atomic_load(&writer->session->head) >> 1;
}

size_t portus_slot_append(struct portus_writer *writer, unsigned file, uint64_t position,
                          size_t length, uint64_t offset, uint64_t *waited)
{
    struct portus_patience patience = {0};
    uint64_t began = 0, sequence;
    size_t done = 0;

    while (done < length) {
        uint64_t at = position + done;
        uint64_t room = PORTUS_CHUNK - at % PORTUS_CHUNK;
        uint32_t part = (uint32_t)(length - done < room ? length - done : room);
        int admitted;

        portus_lock(&writer->lock);
        admitted = portus_records_admit(writer);
        if (admitted > 0)
            admitted = portus_records_reserve(writer, file, at, part, &sequence);
        portus_unlock(&writer->lock);
        if (admitted < 0)
            break;
        if (admitted == 0) {
            if (began == 0)
                began = portus_now();
            portus_writer_pause(writer, &patience);
            continue;
        }
        patience.since = 0;
        portus_records_publish(
            writer, sequence,
            &(struct portus_record){
                .offset = offset + done, .data = at, .length = part, .file = file});
        done += part;
        atomic_fetch_add(&writer->link.control->file[file].captured, part);
    }
    if (began != 0)
        *waited += portus_now() - began;
    return done;
}
