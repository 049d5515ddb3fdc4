/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ahead.c -- bytes that are copied into the ring before their place is known
 *
 * torch checksums a tensor before it writes it. One pass over the tensor computes
 * the sum and fills the ring; the write that follows only adds the records.
 *
 * What is held is not in the log yet, so the agent must not take the ring for
 * empty: `held` in the session says so. Both sides first make their own move
 * (count, or the stop flag) and then look for the other's, so one of them sees it.
 */
#include "client/chunks.h"
#include "client/records.h"
#include "client/slot.h"
#include "common/copy.h"

static void unhold(struct portus_writer *writer, struct portus_ahead *ahead)
{
    for (unsigned i = 0; i < ahead->pieces; i++)
        portus_chunks_unhold(&writer->chunks, ahead->piece[i].position);
    atomic_fetch_sub(&writer->session->held, 1);
    ahead->data = NULL;
    ahead->pieces = 0;
}

/* Takes space for all of it; with the lock held. */
static bool hold(struct portus_writer *writer, struct portus_ahead *ahead, size_t length,
                 uint64_t offset)
{
    ahead->pieces = 0;
    for (size_t done = 0; done < length;) {
        uint64_t position;
        uint32_t taken;

        if (ahead->pieces == PORTUS_AHEAD_PIECES)
            return false;
        taken = portus_records_take(writer, offset + done, length - done, &position);
        if (taken == 0)
            return false;
        portus_chunks_hold(&writer->chunks, position);
        ahead->piece[ahead->pieces].position = position;
        ahead->piece[ahead->pieces++].length = taken;
        done += taken;
    }
    return writer->chunks.free > 0; /* the small records of the same save need room, too */
}

bool portus_writer_copy_ahead(struct portus_writer *writer, struct portus_ahead *ahead,
                              const void *data, size_t length, uint64_t offset)
{
    const uint8_t *source = data;
    bool held;

    atomic_fetch_add(&writer->session->held, 1);
    portus_lock(&writer->lock);
    held = portus_records_admit(writer) > 0 && hold(writer, ahead, length, offset);
    if (!held)
        unhold(writer, ahead);
    portus_unlock(&writer->lock);
    if (!held)
        return false;
    ahead->opened = writer->opened;
    ahead->data = data;
    ahead->length = length;
    ahead->crc = 0;
    for (unsigned i = 0; i < ahead->pieces; i++) {
        if (!portus_source_readable(&writer->source, source, ahead->piece[i].length)) {
            portus_writer_drop_ahead(writer, ahead);
            return false;
        }
        ahead->crc = portus_copy_crc(writer->data + ahead->piece[i].position, source,
                                     ahead->piece[i].length, ahead->crc);
        source += ahead->piece[i].length;
    }
    return true;
}

void portus_writer_drop_ahead(struct portus_writer *writer, struct portus_ahead *ahead)
{
    if (ahead->data == NULL)
        return;
    portus_lock(&writer->lock);
    if (ahead->opened == writer->opened)
        unhold(writer, ahead);
    ahead->data = NULL; /* else it went with the writer that held it */
    portus_unlock(&writer->lock);
}

size_t portus_writer_append_ahead(struct portus_writer *writer, unsigned file,
                                  struct portus_ahead *ahead, uint64_t offset, uint64_t *waited)
{
    size_t done = 0, taken;

    for (unsigned i = 0; ahead->opened == writer->opened && i < ahead->pieces; i++) {
        taken = portus_slot_append(writer, file, ahead->piece[i].position, ahead->piece[i].length,
                                   offset + done, waited);
        done += taken;
        if (taken < ahead->piece[i].length)
            break;
    }
    portus_writer_drop_ahead(writer, ahead);
    return done;
}
