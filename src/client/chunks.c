/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunks.c -- where in the ring the next bytes go
 *
 * The log is replayed in order, so a chunk is free as soon as the tail (and a store's
 * claim) has passed the last record in it: the client needs no other word from the agent.
 * Free chunks are taken last in, first out, so that a small save uses few pages.
 *
 * Bytes lie in a chunk as they lie in the file, modulo the page, and modulo the
 * chunk where a large write begins: the drain then writes whole, aligned pieces.
 */
#include "client/chunks.h"

#include <string.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
#define PAGE 4096u

static void *table(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int portus_chunks_open(struct portus_chunks *chunks)
{
    memset(chunks, 0, sizeof(*chunks));
    chunks->current = NONE;
    chunks->stack = table(PORTUS_CHUNKS * sizeof(*chunks->stack));
    chunks->used = table(PORTUS_CHUNKS * sizeof(*chunks->used));
    chunks->last_use = table(PORTUS_CHUNKS * sizeof(*chunks->last_use));
    chunks->holds = table(PORTUS_CHUNKS * sizeof(*chunks->holds));
    if (chunks->stack == NULL || chunks->used == NULL || chunks->last_use == NULL ||
        chunks->holds == NULL) {
        portus_chunks_close(chunks);
        return -ENOMEM;
    }
    return 0;
}

void portus_chunks_close(struct portus_chunks *chunks)
{
    if (chunks->stack != NULL)
        munmap(chunks->stack, PORTUS_CHUNKS * sizeof(*chunks->stack));
    if (chunks->used != NULL)
        munmap(chunks->used, PORTUS_CHUNKS * sizeof(*chunks->used));
    if (chunks->last_use != NULL)
        munmap(chunks->last_use, PORTUS_CHUNKS * sizeof(*chunks->last_use));
    if (chunks->holds != NULL)
        munmap(chunks->holds, PORTUS_CHUNKS * sizeof(*chunks->holds));
    memset(chunks, 0, sizeof(*chunks));
}

/* Forgets all uses: every chunk is free, the lowest is taken first. */
static void renew(struct portus_chunks *chunks, uint32_t known)
{
    chunks->known = known;
    chunks->free = known;
    for (uint32_t i = 0; i < known; i++)
        chunks->stack[i] = known - 1 - i;
    chunks->first = chunks->end = 0;
    chunks->current = NONE;
}

/* New chunks go below all others: they are the coldest. */
static void grow(struct portus_chunks *chunks, uint32_t known)
{
    uint32_t more = known - chunks->known;

    memmove(chunks->stack + more, chunks->stack, chunks->free * sizeof(*chunks->stack));
    for (uint32_t i = 0; i < more; i++)
        chunks->stack[i] = known - 1 - i;
    chunks->known = known;
    chunks->free += more;
}

static void recycle(struct portus_chunks *chunks, uint64_t tail)
{
    uint64_t passed = 0;

    while (chunks->first < chunks->end) {
        uint32_t chunk = chunks->used[chunks->first % PORTUS_CHUNKS];
        if (chunk == chunks->current || chunks->last_use[chunk] > tail)
            return;
        if (chunks->holds[chunk] != 0) {
            /* Behind the others: what it is held for may need one of them first. */
            if (passed++ == chunks->end - chunks->first)
                return;
            chunks->used[chunks->end++ % PORTUS_CHUNKS] = chunk;
            chunks->first++;
            continue;
        }
        chunks->stack[chunks->free++] = chunk;
        chunks->first++;
    }
}

uint32_t portus_chunks_take(struct portus_chunks *chunks, uint64_t offset, size_t length,
                            uint64_t head, uint64_t tail, uint64_t ring_bytes, uint64_t *position)
{
    uint64_t known = ring_bytes / PORTUS_CHUNK;
    uint32_t at, in_page = (uint32_t)(offset % PAGE), room;

    if (known > PORTUS_CHUNKS)
        known = PORTUS_CHUNKS;
    if (chunks->held == 0 && head == tail) {
        /* The log is empty: also the only moment at which a ring becomes smaller. */
        renew(chunks, (uint32_t)known);
    } else {
        if (known > chunks->known)
            grow(chunks, (uint32_t)known);
        recycle(chunks, tail);
    }

    if (chunks->current != NONE) {
        /* The next place in the current chunk that lies in its page as the file's byte does. */
        at = chunks->cursor - chunks->cursor % PAGE + in_page;
        if (at < chunks->cursor)
            at += PAGE;
        if (at < PORTUS_CHUNK)
            goto found;
    }
    if (chunks->free == 0)
        return 0;
    chunks->current = chunks->stack[--chunks->free];
    chunks->used[chunks->end++ % PORTUS_CHUNKS] = chunks->current;
    chunks->last_use[chunks->current] = 0;
    at = length >= PORTUS_CHUNK / 2 ? (uint32_t)(offset % PORTUS_CHUNK) : in_page;

found:
    room = PORTUS_CHUNK - at;
    if (length < room)
        room = (uint32_t)length;
    chunks->cursor = at + room;
    *position = (uint64_t)chunks->current * PORTUS_CHUNK + at;
    return room;
}

void portus_chunks_used(struct portus_chunks *chunks, uint64_t position, uint64_t after)
{
    chunks->last_use[position / PORTUS_CHUNK] = after;
}

void portus_chunks_hold(struct portus_chunks *chunks, uint64_t position)
{
    chunks->holds[position / PORTUS_CHUNK]++;
    chunks->held++;
}

void portus_chunks_unhold(struct portus_chunks *chunks, uint64_t position)
{
    chunks->holds[position / PORTUS_CHUNK]--;
    chunks->held--;
}
