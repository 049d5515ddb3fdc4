/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunks.h -- where in the ring the next bytes go
 *
 * All functions are called with the writer's lock held.
 */
#ifndef PORTUS_CHUNKS_H
#define PORTUS_CHUNKS_H

#include "client/writer.h"

/* 0 or -ENOMEM. */
int portus_chunks_open(struct portus_chunks *chunks);
void portus_chunks_close(struct portus_chunks *chunks);

/*
 * Takes space for at most length bytes of a file at offset. *position is in
 * bytes of the ring's data. Returns the bytes taken, or 0 when nothing is free.
 * head, tail: records reserved and through with so far; ring_bytes: of the session.
 */
uint32_t portus_chunks_take(struct portus_chunks *chunks, uint64_t offset, size_t length,
                            uint64_t head, uint64_t tail, uint64_t ring_bytes, uint64_t *position);

/* Says that the space at position belongs to the record before sequence `after`. */
void portus_chunks_used(struct portus_chunks *chunks, uint64_t position, uint64_t after);

/* Keeps the space at position, which has no record yet; and no longer. */
void portus_chunks_hold(struct portus_chunks *chunks, uint64_t position);
void portus_chunks_unhold(struct portus_chunks *chunks, uint64_t position);

/*
 * Takes and keeps a slot for at most length bytes that follow each other, the first of which lies
 * in_page bytes into its page. Returns the bytes taken, of whole pages where it is not all, or 0.
 * The rest as above.
 */
uint64_t portus_chunks_slot(struct portus_chunks *chunks, uint32_t in_page, uint64_t length,
                            uint64_t head, uint64_t tail, uint64_t ring_bytes, uint64_t *position);
void portus_chunks_keep(struct portus_chunks *chunks, uint64_t position, uint64_t length);
void portus_chunks_give(struct portus_chunks *chunks, uint64_t position, uint64_t length);

#endif
