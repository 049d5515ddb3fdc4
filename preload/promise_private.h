/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise_private.h -- the slots that are needed, for promise.c, promise_settle.c and
 * promise_range.c alone
 */
#ifndef PORTUS_PRELOAD_PROMISE_PRIVATE_H
#define PORTUS_PRELOAD_PROMISE_PRIVATE_H

#include <string.h>

#include "client/pages.h"
#include "common/futex.h"
#include "promise.h"

#define PAGE 4096ul
#define PROMISES 4096
#define MAPPINGS 8192 /* of the ring at most: a process may have 65530 of all kinds */

/* A slot that is needed. */
struct promise {
    uintptr_t from, to; /* where its bytes were to appear */
    struct portus_slot slot;
    uint64_t device; /* where it was copied from */
    bool needed;     /* as far as was looked */
    bool written;    /* to a file */
    bool kept;       /* a child that we do not see may have it: never given back */
};

extern struct promises {
    struct portus_lock lock;
    struct promise entry[PROMISES];
    unsigned count;
    unsigned mappings;      /* of the ring, about */
    uint32_t opened;        /* the writer that the table belongs to */
    uint64_t device, inode; /* of its ring's file */
} promises;

static inline uintptr_t page_up(uintptr_t at)
{
    return (at + PAGE - 1) & ~(PAGE - 1);
}

static inline uintptr_t page_down(uintptr_t at)
{
    return at & ~(PAGE - 1);
}

static inline uintptr_t least(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

/* Whether a mapping is one of the ring's that a promise made. */
static inline bool promise_of_ring(const struct portus_mapping *mapping)
{
    return mapping->inode == promises.inode && mapping->device == promises.device &&
           promises.inode != 0 && !(mapping->flags & PORTUS_MAPPING_SHARED);
}

/* The same of any ring that this process, or one that it was forked from, ever had. */
static inline bool promise_of_rings(const struct portus_mapping *mapping)
{
    return strncmp(mapping->name, "/memfd:portus-ring", 18) == 0 &&
           !(mapping->flags & PORTUS_MAPPING_SHARED);
}

/* The lock, for who has the writer that the table belongs to. */
bool promise_enter(struct portus_writer *writer);

enum promise_wish { PROMISE_WRITTEN, PROMISE_ALL };

/*
 * Fills what is wished, so many bytes or a little more. Whether there was any. Without the lock for
 * PROMISE_WRITTEN, better also for PROMISE_ALL: it takes as long as the memory is large.
 */
bool promise_fill_some(struct portus_writer *writer, enum promise_wish wish, uint64_t bytes);

/* With the lock. Gives back what nobody needs. */
void promise_reclaim(struct portus_writer *writer);

/* All of it, for who waits for room: see writer.h. */
void promise_relieve(struct portus_writer *writer);

/* Fills a part of one mapping. */
void promise_fill(const struct portus_mapping *mapping, uintptr_t start, uintptr_t end);

/* Puts memory of no file, with zeros, in the place of what is there. */
void promise_empty(uintptr_t start, uintptr_t end, int protection);

#endif
