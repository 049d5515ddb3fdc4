/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise.h -- memory of the program whose bytes lie in the ring
 *
 * Where a device copied into a slot of the ring instead of the program's memory, that memory
 * becomes a private mapping of the slot. Reads see the slot, a write gets a page of its own,
 * and what is written to a file unchanged becomes a record that refers to the slot.
 *
 * Not here: which copies these are (cuda.c), and who gives room (slot.h).
 */
#ifndef PORTUS_PRELOAD_PROMISE_H
#define PORTUS_PRELOAD_PROMISE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/slot.h"

/* A promise has been made in this process, or in one that it was forked from. */
extern _Atomic bool promise_made;

/* Bytes that are pinned in this process; and how many of them are the ring's. */
uint64_t promise_pins(void);
void promise_pins_ours(uint64_t bytes);

/* Whether length bytes at `to` are memory that can be promised. */
bool promise_possible(const void *to, size_t length);

/* Room in the ring for bytes that are to appear at `to`; as portus_slot_take. */
bool promise_room(struct portus_writer *writer, const void *to, size_t length,
                  struct portus_slot *slot);

/*
 * Lets the bytes of a slot, which are there by now, appear at `to`: by a promise, or copied. from:
 * where a device has them.
 */
void promise_make(struct portus_writer *writer, void *to, const struct portus_slot *slot,
                  uint64_t from);

/* As portus_writer_append, and what is promised and unchanged is not copied. */
size_t promise_append(struct portus_writer *writer, unsigned file, const void *data, size_t length,
                      uint64_t offset, uint64_t *waited);

/*
 * The CRC-32 of length bytes at data, read where they lie in the ring, or in memory: what had no
 * room in the ring, or was changed. False: that is most of it, or cannot be read.
 */
bool promise_crc(struct portus_writer *writer, const void *data, size_t length, uint32_t *crc);

/* Fills all promised memory, so that nothing depends on the ring. Also in a loop, cheaply. */
void promise_settle(void);

/*
 * At the end of a save: gives back what nobody shows any more. What is left may stay if it is
 * little, as the next copies mostly go over it. Otherwise `fill` fills what was written. Whether
 * there is nothing more to do.
 */
bool promise_rest(bool fill);

/* The same for a part of memory, before its mapping changes. */
void promise_settle_range(const void *start, size_t length);

/* Whether any of it may be promised. */
bool promise_any(const void *start, size_t length);

/*
 * Makes it ordinary memory again; `keep`: with its bytes, else with zeros. For calls that
 * treat a mapping of a file otherwise.
 */
void promise_end_range(void *start, size_t length, bool keep);

/*
 * Makes one mapping of a range that was one to the program before its parts were promised, for
 * calls that take no more than one. False: it has not done anything.
 */
bool promise_join(void *start, size_t length);

/* Around fork: all are settled, none is made meanwhile; in the child. */
void promise_before_fork(void);
void promise_after_fork(void);
void promise_forget(void);

/* A writer that is closed, and its ring: what is mapped of it stays, and is nobody's any more. */
void promise_leave(void);

#endif
