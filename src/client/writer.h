/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.h -- a client's end of the ring: appends records, waits, takes over
 *
 * One writer a process. Any number of threads may use it; a lock of its own
 * orders them, and no copy is made under it.
 *
 * Functions that wait return early when the agent has died: the writer then
 * replays the log itself (takeover.c), after which it is `gone` and only good
 * for closing.
 */
#ifndef PORTUS_WRITER_H
#define PORTUS_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/link.h"
#include "client/source.h"
#include "common/futex.h"

#define PORTUS_CHUNKS (PORTUS_RING_MAX / PORTUS_CHUNK)

/* Which chunks of the ring are free: private to the client, see chunks.c. */
struct portus_chunks {
    uint32_t *stack;     /* free chunks; the last one is taken next */
    uint32_t free;       /* how many */
    uint32_t known;      /* chunks 0 to known - 1 exist */
    uint32_t *used;      /* chunks in the order of their use: a circular queue */
    uint64_t *last_use;  /* of each used chunk: the sequence after the last record in it */
    uint16_t *holds;     /* of each chunk: pieces that are filled and have no record yet */
    uint32_t held;       /* sum of the above */
    uint64_t first, end; /* of the queue */
    uint64_t taken;      /* so far */
    uint32_t current;    /* the chunk that is being filled; UINT32_MAX: none */
    uint32_t cursor;     /* first free byte in it */
    uint32_t rest;       /* the one that takes ends which would waste most of another; as above */
    uint32_t rest_end;   /* first free byte in it */
    uint32_t slot;       /* the chunk that the last slot ends in; UINT32_MAX: none */
    uint32_t slot_end;   /* first free byte in that */
};

struct portus_writer {
    struct portus_link link;
    struct portus_session *session;
    struct portus_record *record;
    uint8_t *data;
    struct portus_lock lock;
    struct portus_chunks chunks;
    struct portus_source source;
    uint64_t head;           /* records reserved */
    uint64_t burst;          /* chunks that were taken when the log was empty */
    uint64_t lacked;         /* bytes of slots since one was had */
    _Atomic uint32_t gone;   /* taken over, or the agent has let us go */
    uint32_t serial;         /* of our session */
    uint32_t opened;         /* counts the writers that this process has had */
    _Atomic uint64_t warmed; /* bytes of the ring that are in our page tables */
    _Atomic uint32_t lost;   /* errno of a file, of which no call has told yet */
    int keep[PORTUS_FILES];  /* our own copy of each engaged description, or -1 */
    bool used[PORTUS_FILES]; /* the caller still goes by this number */
    bool stored;             /* there is a store, which reads files that are whole */
    /* Called by who waits for room that slots may have; no lock is held. */
    void (*relieve)(struct portus_writer *writer);
};

/* A file to be engaged. Numbers as in struct portus_file. */
struct portus_claim {
    int fd;
    uint64_t device, inode, directory[PORTUS_ANCESTORS];
    uint64_t size;
    bool leaseless, hurried, replaces;
    const char *path;
};

/*
 * Connects (starting the agent if options say so). 0 or a negative errno, with a sentence
 * in *why.
 */
int portus_writer_open(struct portus_writer *writer, const struct portus_link_options *options,
                       const char **why);

/* Closes all. No thread may be inside. Nothing of what is shared with the agent changes. */
void portus_writer_close(struct portus_writer *writer);

/*
 * Engages claim->fd: a lease on it, a copy of it kept, the description sent to
 * the agent. Returns the file's number, or a negative errno: -EAGAIN somebody
 * else has it open, -ENOSPC no place, -ESHUTDOWN the agent captures nothing, -EHOSTDOWN the log
 * waits for another file system, which does not answer.
 */
int portus_writer_engage(struct portus_writer *writer, const struct portus_claim *claim);

/*
 * Appends length bytes at data as the file's bytes at offset. Returns how many
 * were captured: fewer than length when the file was stopped (somebody waits for
 * it), when the source cannot be read, or when the agent is gone. What was not
 * captured must be written plainly after portus_writer_release. *waited is
 * advanced by the nanoseconds spent waiting for ring space.
 */
size_t portus_writer_append(struct portus_writer *writer, unsigned file, const void *data,
                            size_t length, uint64_t offset, uint64_t *waited);

/*
 * Bytes that were copied into the ring before it is known where in a file they go:
 * so that one pass over the source serves both a checksum and the capture.
 */
#define PORTUS_AHEAD_PIECES 4096

struct portus_ahead {
    const void *data; /* the source; NULL: nothing is held */
    size_t length;
    uint32_t crc;    /* CRC-32 of it */
    uint32_t opened; /* of the writer that holds it */
    unsigned pieces;
    struct {
        uint64_t position;
        uint32_t length;
    } piece[PORTUS_AHEAD_PIECES];
};

/*
 * Copies length bytes at data into the ring and computes their CRC-32. offset: where
 * in a file they are expected to go; a wrong guess costs speed only. False when the
 * ring has not enough room now or the source cannot be read: nothing is held.
 */
bool portus_writer_copy_ahead(struct portus_writer *writer, struct portus_ahead *ahead,
                              const void *data, size_t length, uint64_t offset);

/* Gives back what is held, if anything. */
void portus_writer_drop_ahead(struct portus_writer *writer, struct portus_ahead *ahead);

/*
 * As portus_writer_append of ahead's bytes, without a copy. Whatever it returns,
 * nothing is held afterwards.
 */
size_t portus_writer_append_ahead(struct portus_writer *writer, unsigned file,
                                  struct portus_ahead *ahead, uint64_t offset, uint64_t *waited);

/* Waits until all records of the file are replayed. 0, or its sticky error. */
int portus_writer_drain(struct portus_writer *writer, unsigned file);

/*
 * Asks for the file to be committed by the store as it is now, and waits until it is, or
 * replayed. Whether it is committed.
 */
bool portus_writer_keep(struct portus_writer *writer, unsigned file);

/*
 * Stops the file, for good: its number must not be used any more. Does not wait; it
 * is given back by portus_writer_reap when the drain is through. 0, or the sticky error
 * that it has by now.
 */
int portus_writer_leave(struct portus_writer *writer, unsigned file);

/*
 * Stops the file, and waits until it is an ordinary one. 0, or its sticky error. Its
 * number must not be used any more.
 */
int portus_writer_release(struct portus_writer *writer, unsigned file);

/*
 * Gives up the places and copies of files that are done and that nobody goes by any
 * more. Returns how many files of this writer are still live.
 */
unsigned portus_writer_reap(struct portus_writer *writer);

/* Waits a short while for the agent to get on, takes over if it is dead or hangs. */
void portus_writer_pause(struct portus_writer *writer, struct portus_patience *patience);

/* takeover.c: if the agent is gone, replays what is left. Returns whether it is gone. */
bool portus_writer_check(struct portus_writer *writer);

/*
 * If this process has a copy of a description of that file, which the program has
 * closed: waits until it is closed, too. False: there was none. For an opener who
 * was let in the moment the lease went: the last copies may be open a little longer,
 * and closing ours would drop the POSIX locks that this process has on the file.
 */
bool portus_writer_settle(struct portus_writer *writer, uint64_t device, uint64_t inode);

/*
 * Waits until the files that are drained and closed are given back, so that no copy of
 * ours keeps what is about to be deleted. A short while at most.
 */
void portus_writer_clear(struct portus_writer *writer);

/*
 * The first error of a file of ours that no call of the program has returned yet, or 0.
 * A negative errno, once.
 */
int portus_writer_error(struct portus_writer *writer);

/* A file's error, negative, that the caller could not pass on: the next of the above returns it. */
void portus_writer_untold(struct portus_writer *writer, int error);

/* The caller could, after all. */
void portus_writer_told(struct portus_writer *writer, int error);

/* Whether the caller still goes by the number of any file. */
bool portus_writer_busy(const struct portus_writer *writer);

/* Maps pages of the ring that the agent has populated; true when there is no more to do. */
bool portus_writer_warm(struct portus_writer *writer);

#endif
