/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot.h -- room in the ring that is filled before it is known where its bytes go
 *
 * A device copies into it; records refer to it later, any number of times, without a copy.
 */
#ifndef PORTUS_SLOT_H
#define PORTUS_SLOT_H

#include "client/writer.h"

struct portus_slot {
    uint64_t position; /* in the ring's data */
    uint64_t length;
};

/*
 * Takes room for at most length bytes, the first of which lies in_page bytes into its page;
 * fewer where there is not so much in one piece, and then up to the end of a page. False:
 * there is none now.
 */
bool portus_slot_take(struct portus_writer *writer, uint32_t in_page, uint64_t length,
                      struct portus_slot *slot);

/* There was no room for so much, and there was to be: the agent makes it before the next save. */
void portus_slot_lacked(struct portus_writer *writer, uint64_t length);

/* Once more: it is to be given back twice. For a part of one that is held, too. */
void portus_slot_hold(struct portus_writer *writer, const struct portus_slot *slot);

/* Nobody looks at it any more but the records that refer to it. */
void portus_slot_give(struct portus_writer *writer, const struct portus_slot *slot);

/* Whether the drain may make room yet. */
bool portus_slot_pending(struct portus_writer *writer);

/*
 * Appends length bytes at position, which are still held (in a slot, or copied ahead), as the
 * file's bytes at offset. As portus_writer_append.
 */
size_t portus_slot_append(struct portus_writer *writer, unsigned file, uint64_t position,
                          size_t length, uint64_t offset, uint64_t *waited);

#endif
