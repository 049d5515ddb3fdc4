/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunks.c -- where in the ring the next bytes go
 *
 * The log is replayed in order, so a chunk is free as soon as the tail (and a store's
 * claim) has passed the last record in it: the client needs no other word from the agent.
 * Free chunks are taken last in, first out, so that a small save uses few pages.
 *
 * Bytes lie in a chunk as they lie in the file, modulo the page, and modulo the
 * chunk where a large write begins: the drain then writes whole, aligned pieces. The ends that
 * are left over, where it begins late in a chunk of the file, share a chunk.
 *
 * A slot is room for bytes that come before their place in a file is known, and that are not
 * copied any more: it is one piece of address space, over many chunks where it can be, and
 * held until nobody looks at it. Some chunks are never given to slots, or a writer could wait
 * for room that no drain makes.
 */
#include "client/chunks.h"

#include <string.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
#define PAGE 4096u
#define SPARED 4u /* chunks, and one in so many, that slots leave to records */
#define SPARED_PART 8u

static void *table(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int portus_chunks_open(struct portus_chunks *chunks)
{
    memset(chunks, 0, sizeof(*chunks));
    chunks->current = chunks->rest = chunks->slot = NONE;
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
    chunks->current = chunks->rest = chunks->slot = NONE;
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
        if (chunks->last_use[chunk] > tail)
            return;
        if (chunks->holds[chunk] != 0 || chunk == chunks->current) {
            /* Behind the others: what it is held for may need one of them first. */
            if (passed++ == chunks->end - chunks->first)
                return;
            chunks->used[chunks->end++ % PORTUS_CHUNKS] = chunk;
            chunks->first++;
            continue;
        }
        if (chunk == chunks->slot)
            chunks->slot = NONE;
        chunks->stack[chunks->free++] = chunk;
        chunks->first++;
    }
}

/* What has become free since. */
static void refresh(struct portus_chunks *chunks, uint64_t head, uint64_t tail, uint64_t ring_bytes)
{
    uint64_t known = ring_bytes / PORTUS_CHUNK;

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
}

static void line_up(struct portus_chunks *chunks, uint32_t chunk)
{
    chunks->used[chunks->end++ % PORTUS_CHUNKS] = chunk;
}

static void begin_use(struct portus_chunks *chunks, uint32_t chunk)
{
    chunks->last_use[chunk] = 0;
    chunks->taken++;
}

/* The next place behind a cursor that lies in its page as the file's byte does. */
static uint32_t place(uint32_t cursor, uint32_t in_page)
{
    uint32_t at = cursor - cursor % PAGE + in_page;

    return at < cursor ? at + PAGE : at;
}

uint32_t portus_chunks_take(struct portus_chunks *chunks, uint64_t offset, size_t length,
                            uint64_t head, uint64_t tail, uint64_t ring_bytes, uint64_t *position)
{
    uint32_t at, room, most = PORTUS_CHUNK, in_page = (uint32_t)(offset % PAGE);
    uint32_t in_chunk = (uint32_t)(offset % PORTUS_CHUNK), *chunk = &chunks->current;
    uint32_t *cursor = &chunks->cursor;

    refresh(chunks, head, tail, ring_bytes);
    at = *chunk != NONE ? place(*cursor, in_page) : PORTUS_CHUNK;
    if (at < PORTUS_CHUNK)
        goto found;
    if (length < PORTUS_CHUNK / 2) {
        at = in_page;
    } else if (in_chunk < PORTUS_CHUNK / 2) {
        at = in_chunk;
    } else {
        /* Only up to where the next one lies well: in a chunk with other such ends, not alone. */
        most = PORTUS_CHUNK - in_chunk;
        chunk = &chunks->rest;
        cursor = &chunks->rest_end;
        at = *chunk != NONE ? place(*cursor, in_page) : PORTUS_CHUNK;
        if (at < PORTUS_CHUNK)
            goto found;
        at = in_page;
    }
    if (chunks->free == 0)
        return 0;
    /* The one for ends is used for long: in the queue from now on, or it would hold up others. */
    if (chunk == &chunks->rest && *chunk != NONE)
        line_up(chunks, *chunk);
    *chunk = chunks->stack[--chunks->free];
    begin_use(chunks, *chunk);
    if (chunk == &chunks->current)
        line_up(chunks, *chunk);

found:
    room = PORTUS_CHUNK - at < most ? PORTUS_CHUNK - at : most;
    if (length < room)
        room = (uint32_t)length;
    *cursor = at + room;
    *position = (uint64_t)*chunk * PORTUS_CHUNK + at;
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

/* The chunks from the first one on that are free, of `most` that follow each other. */
static uint32_t run_from(const struct portus_chunks *chunks, const uint8_t *is_free, uint32_t first,
                         uint32_t most)
{
    uint32_t count = 0;

    while (count < most && first + count < chunks->known && is_free[first + count])
        count++;
    return count;
}

/* The first run of that many free chunks, or the longest. Returns how many. */
static uint32_t find_run(const struct portus_chunks *chunks, const uint8_t *is_free, uint32_t most,
                         uint32_t *first)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < chunks->known && best < most;) {
        uint32_t count = run_from(chunks, is_free, i, most);
        if (count > best) {
            best = count;
            *first = i;
        }
        i += count + 1;
    }
    return best;
}

/* Takes those chunks out of the stack. */
static void take_run(struct portus_chunks *chunks, uint32_t first, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < chunks->free; i++) {
        uint32_t chunk = chunks->stack[i];
        if (chunk - first >= count)
            chunks->stack[kept++] = chunk;
    }
    chunks->free = kept;
    for (uint32_t i = 0; i < count; i++) {
        begin_use(chunks, first + i);
        line_up(chunks, first + i);
    }
}

static uint32_t chunks_of(uint64_t bytes)
{
    return (uint32_t)((bytes + PORTUS_CHUNK - 1) / PORTUS_CHUNK);
}

uint64_t portus_chunks_slot(struct portus_chunks *chunks, uint32_t in_page, uint64_t length,
                            uint64_t head, uint64_t tail, uint64_t ring_bytes, uint64_t *position)
{
    static uint8_t is_free[PORTUS_CHUNKS]; /* of nobody between calls */
    uint32_t spare, most, at, first = 0, run;
    uint64_t room;

    if (length == 0 || length > PORTUS_RING_MAX)
        return 0;
    refresh(chunks, head, tail, ring_bytes);
    spare = chunks->known / SPARED_PART > SPARED ? chunks->known / SPARED_PART : SPARED;
    most = chunks->free > spare ? chunks->free - spare : 0;
    for (uint32_t i = 0; i < chunks->free; i++)
        is_free[chunks->stack[i]] = 1;

    /* Behind the slot before, if all of it can be there. */
    if (chunks->slot != NONE) {
        at = chunks->slot_end - chunks->slot_end % PAGE + in_page;
        if (at < chunks->slot_end)
            at += PAGE;
        first = chunks->slot + 1;
        run = at + length > PORTUS_CHUNK ? chunks_of(at + length - PORTUS_CHUNK) : 0;
        if (at < PORTUS_CHUNK && run <= most && run_from(chunks, is_free, first, run) == run) {
            *position = (uint64_t)chunks->slot * PORTUS_CHUNK + at;
            room = length;
            goto found;
        }
    }
    run = chunks_of(in_page + length);
    run = find_run(chunks, is_free, run < most ? run : most, &first);
    *position = (uint64_t)first * PORTUS_CHUNK + in_page;
    room = run == 0 ? 0 : (uint64_t)run * PORTUS_CHUNK - in_page;
    if (room > length)
        room = length;

found:
    for (uint32_t i = 0; i < chunks->free; i++)
        is_free[chunks->stack[i]] = 0;
    if (room == 0)
        return 0;
    take_run(chunks, first, run);
    chunks->slot = (uint32_t)((*position + room - 1) / PORTUS_CHUNK);
    chunks->slot_end = (uint32_t)((*position + room - 1) % PORTUS_CHUNK) + 1;
    portus_chunks_keep(chunks, *position, room);
    return room;
}

void portus_chunks_keep(struct portus_chunks *chunks, uint64_t position, uint64_t length)
{
    for (uint64_t i = position / PORTUS_CHUNK; i <= (position + length - 1) / PORTUS_CHUNK; i++)
        portus_chunks_hold(chunks, i * PORTUS_CHUNK);
}

void portus_chunks_give(struct portus_chunks *chunks, uint64_t position, uint64_t length)
{
    for (uint64_t i = position / PORTUS_CHUNK; i <= (position + length - 1) / PORTUS_CHUNK; i++)
        portus_chunks_unhold(chunks, i * PORTUS_CHUNK);
}
