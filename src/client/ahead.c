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
#include <errno.h>

#include "client/chunks.h"
#include "client/records.h"
#include "common/copy.h"

static void unhold(struct portus_writer *writer, struct portus_ahead *ahead, unsigned from)
{
    for (unsigned i = from; i < ahead->pieces; i++)
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
        unhold(writer, ahead, 0);
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
        unhold(writer, ahead, 0);
    ahead->data = NULL; /* else it went with the writer that held it */
    portus_unlock(&writer->lock);
}

size_t portus_writer_append_ahead(struct portus_writer *writer, unsigned file,
                                  struct portus_ahead *ahead, uint64_t offset, uint64_t *waited)
{
    size_t done = 0;
    struct portus_patience patience = {0};
    uint64_t began = 0, sequence;
    unsigned i = 0;

    if (ahead->opened != writer->opened) {
        ahead->data = NULL;
        return 0;
    }
    while (i < ahead->pieces) {
        uint32_t length = ahead->piece[i].length;
        int admitted;

        portus_lock(&writer->lock);
        admitted = portus_records_admit(writer);
        if (admitted > 0)
            admitted =
                portus_records_reserve(writer, file, ahead->piece[i].position, length, &sequence);
        if (admitted > 0) {
            portus_chunks_unhold(&writer->chunks, ahead->piece[i].position);
            i++;
        }
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
        portus_records_publish(writer, sequence,
                               &(struct portus_record){.offset = offset + done,
                                                       .data = ahead->piece[i - 1].position,
                                                       .length = length,
                                                       .file = file});
        done += length;
        atomic_fetch_add(&writer->link.control->file[file].captured, length);
    }
    if (began != 0)
        *waited += portus_now() - began;
    portus_lock(&writer->lock);
    unhold(writer, ahead, i);
    portus_unlock(&writer->lock);
    return done;
}
