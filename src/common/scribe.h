/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scribe.h -- writes what a process says of itself, so that a file that hangs holds nobody up
 *
 * For processes of our own: it is a thread. A program that has the shim writes its lines itself.
 */
#ifndef PORTUS_SCRIBE_H
#define PORTUS_SCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/futex.h"

#define PORTUS_SCRIBE_BYTES (256u << 10)

/* A static one: zeroes but for write, most of them never touched. */
struct portus_scribe {
    void (*write)(const char *bytes, size_t length); /* called by the thread */
    struct portus_lock lock;
    enum { PORTUS_SCRIBE_NEW, PORTUS_SCRIBE_THREAD, PORTUS_SCRIBE_REFUSED } state;
    bool late;                     /* a piece was not written in time: nobody waits for the next */
    unsigned turn;                 /* which of the two is put into; the other is being written */
    size_t used;                   /* bytes of it: pieces, each after its length */
    uint32_t pieces;               /* of them */
    _Atomic uint32_t put, written; /* pieces so far */
    char queue[2][PORTUS_SCRIBE_BYTES];
};

/*
 * Has one piece written, after those before. Waits for that, but not longer than a tenth of a
 * second, and not at all while a piece that was waited for is still not written. False: there is
 * no room, so many are behind; it is lost. Where no thread can be had the caller writes it.
 */
bool portus_scribe_put(struct portus_scribe *scribe, const char *bytes, size_t length);

/* The same without waiting; what is still unwritten is replaced. */
bool portus_scribe_leave(struct portus_scribe *scribe, const char *bytes, size_t length);

/* Waits until all is written, so many ms at most. */
void portus_scribe_flush(struct portus_scribe *scribe, unsigned ms);

/* From now on the lines of log.h and trace.h are written by threads; in a child of fork by the
 * child. Once, before there are others that write any. */
void portus_scribes_begin(void);

/* Before the process ends: waits for them, half a second at most. exit(3) does. */
void portus_scribes_end(void);

/* Whether a line that was waited for is still not written. */
bool portus_scribes_behind(void);

#endif
