/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * portus.h -- the version, and the limits that more than one program must agree on
 *
 * Shared memory is described in ring.h, messages in proto.h.
 */
#ifndef PORTUS_PORTUS_H
#define PORTUS_PORTUS_H

#define PORTUS_VERSION "0.1.0"

/* Clients of one agent at a time; a client that finds no place writes plainly. */
#define PORTUS_SESSIONS 256

/* Files of one agent that are live at a time; one more is not engaged. */
#define PORTUS_FILES 1024

/* Records of one session's log that are not replayed yet: a power of two. */
#define PORTUS_RECORDS 16384

/* Ring memory is handed out in chunks of this many bytes; no record crosses one. */
#define PORTUS_CHUNK (1u << 20)

/* What a user's one session may map at most, bytes (address space, not memory). */
#define PORTUS_RING_MAX (64ull << 30)

#endif
