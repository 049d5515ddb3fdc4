/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * records.h -- one record of the log: admitted, given space, reserved, made ready
 *
 * The steps of an append, for writer.c and ahead.c. The writer's lock is held for
 * all but publish.
 */
#ifndef PORTUS_RECORDS_H
#define PORTUS_RECORDS_H

#include "client/writer.h"

/* Whether one more record may be reserved: 1; 0: wait; a negative errno: never again. */
int portus_records_admit(struct portus_writer *writer);

/* Space in the ring for at most length bytes of a file at offset; 0: there is none now. */
uint32_t portus_records_take(struct portus_writer *writer, uint64_t offset, size_t length,
                             uint64_t *position);

/* The same for a slot: see slot.h. */
uint64_t portus_records_slot(struct portus_writer *writer, uint32_t in_page, uint64_t length,
                             uint64_t *position);

/*
 * Reserves a record of a file for the space at position. 1 and its *sequence; 0:
 * wait; a negative errno: the file is stopped.
 */
int portus_records_reserve(struct portus_writer *writer, unsigned file, uint64_t position,
                           uint32_t length, uint64_t *sequence);

/* Fills in a reserved record and makes it ready: its bytes are in the ring by now. */
void portus_records_publish(struct portus_writer *writer, uint64_t sequence,
                            const struct portus_record *content);

#endif
