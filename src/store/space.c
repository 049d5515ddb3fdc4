/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * space.c -- the bitmap of space.h
 *
 * The search goes on where the last one ended: versions that are written one after the
 * other lie one after the other, and all of the memory is worn alike. A full circle
 * that found no run of the wanted length knows the longest one, and later searches ask
 * for no more than that until something is given back.
 */
#include "store/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD 64

static uint64_t words(uint64_t units)
{
    return (units + WORD - 1) / WORD;
}

int space_open(struct space *space, uint64_t units)
{
    memset(space, 0, sizeof(*space));
    return space_extend(space, units);
}

void space_close(struct space *space)
{
    free(space->bits);
    space->bits = NULL;
}

int space_extend(struct space *space, uint64_t units)
{
    uint64_t before = words(space->units), after = words(units);
    uint64_t *bits;

    if (units < space->units)
        return -EINVAL;
    /* calloc: what is never looked at takes no memory. */
    bits = calloc(after ? after : 1, sizeof(*bits));
    if (bits == NULL)
        return -ENOMEM;
    if (before > 0)
        memcpy(bits, space->bits, before * sizeof(*bits));
    free(space->bits);
    space->bits = bits;
    space->free += units - space->units;
    space->units = units;
    space->longest = units;
    return 0;
}

void space_cut(struct space *space, uint64_t units)
{
    space->free -= space->units - units;
    space->units = units;
    space->longest = units;
    if (space->next >= units)
        space->next = 0;
}

/* The first unit from `from` on, below end, that is taken or not; end if there is none. */
static uint64_t find(const struct space *space, uint64_t from, uint64_t end, bool what)
{
    while (from < end) {
        uint64_t word = space->bits[from / WORD];

        if (!what)
            word = ~word;
        word >>= from % WORD;
        if (word != 0) {
            from += __builtin_ctzll(word);
            return from < end ? from : end;
        }
        from += WORD - from % WORD;
    }
    return end;
}

static void set(struct space *space, uint64_t first, uint64_t count, bool what)
{
    while (count > 0) {
        uint64_t bit = first % WORD, n = count < WORD - bit ? count : WORD - bit;
        uint64_t mask = (n == WORD ? ~0ull : (1ull << n) - 1) << bit;

        if (what)
            space->bits[first / WORD] |= mask;
        else
            space->bits[first / WORD] &= ~mask;
        first += n;
        count -= n;
    }
}

/* A run of wanted units within from to end, or the longest one there. */
static uint64_t search(const struct space *space, uint64_t from, uint64_t end, uint64_t wanted,
                       uint64_t *first)
{
    uint64_t best = 0;

    while ((from = find(space, from, end, false)) < end) {
        uint64_t limit = end - from < wanted ? end : from + wanted;
        uint64_t stop = find(space, from, limit, true);

        if (stop - from > best) {
            best = stop - from;
            *first = from;
            if (best == wanted)
                break;
        }
        from = stop;
    }
    return best;
}

/* The best run for wanted units; not taken yet. */
static uint64_t seek(struct space *space, uint64_t wanted, uint64_t *first)
{
    uint64_t other = 0, best, more;

    if (wanted > space->longest)
        wanted = space->longest;
    if (wanted == 0 || space->free == 0)
        return 0;
    best = search(space, space->next, space->units, wanted, first);
    if (best == wanted)
        return best;
    /* Again from the start, across `next`: a run may begin before it. */
    more = search(space, 0, space->units, wanted, &other);
    if (more > best) {
        best = more;
        *first = other;
    }
    if (best < wanted)
        space->longest = best;
    return best;
}

static void take(struct space *space, uint64_t first, uint64_t count)
{
    set(space, first, count, true);
    space->free -= count;
    space->next = first + count < space->units ? first + count : 0;
}

uint64_t space_take(struct space *space, uint64_t wanted, uint64_t *first)
{
    uint64_t count = seek(space, wanted, first);

    if (count > 0)
        take(space, *first, count);
    return count;
}

bool space_take_all(struct space *space, uint64_t wanted, uint64_t *first)
{
    if (wanted == 0 || seek(space, wanted, first) < wanted)
        return false;
    take(space, *first, wanted);
    return true;
}

bool space_mark(struct space *space, uint64_t first, uint64_t count)
{
    if (first > space->units || count > space->units - first)
        return false;
    if (find(space, first, first + count, true) < first + count)
        return false;
    set(space, first, count, true);
    space->free -= count;
    return true;
}

void space_give(struct space *space, uint64_t first, uint64_t count)
{
    if (count == 0)
        return;
    set(space, first, count, false);
    space->free += count;
    space->longest = space->units;
    /* What was taken last and not used: the next one begins there, so nothing lies in between. */
    if (first + count == space->next)
        space->next = first;
}
