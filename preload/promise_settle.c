/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise_settle.c -- promised memory becomes ordinary, and its slots are given back
 *
 * A slot is given back only when no private mapping of it is left anywhere in the process
 * that has a page which is not its own. Two looks must agree, as a mapping may just be moved.
 *
 * Promised memory is settled by having the kernel copy each page as for a write. The lock is not
 * held meanwhile, as nothing of the table is true of the memory anyway.
 *
 * After a save most of it is gone, or the next save's copies go over it (what malloc keeps of
 * tensors that were freed): so a little may be left, until the room is wanted.
 */
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/slot.h"
#include "origin.h"
#include "promise_private.h"
#include "shim.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LOOKS 2
#define LEFT_PART 4u            /* of the ring, for what is shown between saves; or */
#define LEFT_LEAST (128u << 20) /* what malloc keeps of a few tensors, if that is */
#define LEFT_MOST 2u            /* no more than this part */

static void drop(struct portus_writer *writer, unsigned number)
{
    if (!promises.entry[number].written)
        origin_unsaved(promises.entry[number].device, promises.entry[number].slot.length);
    portus_slot_give(writer, &promises.entry[number].slot);
    promises.entry[number] = promises.entry[--promises.count];
}

/* Whether a part of the ring's data has bytes of this slot. */
static bool has(uint64_t start, uint64_t end, const struct portus_slot *slot)
{
    return slot->position < end && start < slot->position + slot->length;
}

/* The mapping shows this part of the ring's data; says so of the slots in it. */
static void need(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < promises.count; i++)
        promises.entry[i].needed |= has(start, end, &promises.entry[i].slot);
}

/*
 * Before 5.14, when it does not know MADV_POPULATE_WRITE: the kernel writes to each page what is
 * there, as it fails where we would be killed: another thread may just have unmapped it.
 */
static void touch(uintptr_t start, uintptr_t end)
{
    uint32_t nobody = 0;

    for (uintptr_t at = start; at < end; at += PAGE)
        syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0L, 0L, at,
                FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0));
}

static bool knows_populate(void)
{
    static _Atomic int known; /* 1 yes, 2 no */

    if (known == 0)
        known = syscall(SYS_madvise, NULL, 0L, MADV_POPULATE_WRITE) == 0 ? 1 : 2;
    return known == 1;
}

void promise_fill(const struct portus_mapping *mapping, uintptr_t start, uintptr_t end)
{
    if (!(mapping->flags & PORTUS_MAPPING_WRITE))
        return;
    if (knows_populate())
        syscall(SYS_madvise, start, end - start, MADV_POPULATE_WRITE);
    else
        touch(start, end);
}

/* Whether a part of a mapping has pages that are still the ring's. */
static bool depends(const struct portus_source *source, uintptr_t start, uintptr_t end)
{
    uintptr_t from, to;

    return portus_pages_own(source, start, end, &from, &to) <= 0 || from != start || to != end;
}

/* Whether a mapping shows nothing but slots that were written, or nobody's. */
static bool all_written(uint64_t start, uint64_t end)
{
    bool all = true;

    portus_lock(&promises.lock);
    for (unsigned i = 0; i < promises.count; i++)
        all &= promises.entry[i].written || !has(start, end, &promises.entry[i].slot);
    portus_unlock(&promises.lock);
    return all;
}

/* The next mapping that shows a part of the ring's data, and which. */
static bool next_shown(struct portus_walk *walk, struct portus_mapping *mapping, uint64_t *start,
                       uint64_t *end)
{
    while (portus_walk_next(walk, mapping)) {
        if (!promise_of_ring(mapping) || mapping->offset < PORTUS_RING_DATA)
            continue;
        *start = mapping->offset - PORTUS_RING_DATA;
        *end = *start + (mapping->end - mapping->start);
        return true;
    }
    return false;
}

bool promise_fill_some(struct portus_writer *writer, enum promise_wish wish, uint64_t bytes)
{
    struct portus_mapping mapping;
    struct portus_walk walk;
    uint64_t start, end, filled = 0;

    if (writer->source.maps < 0 || writer->source.pages < 0)
        return false;
    portus_walk_begin(&walk, &writer->source, 0);
    while (filled < bytes && next_shown(&walk, &mapping, &start, &end))
        if (depends(&writer->source, mapping.start, mapping.end) &&
            (wish == PROMISE_ALL || all_written(start, end))) {
            promise_fill(&mapping, mapping.start, mapping.end);
            filled += end - start;
        }
    portus_walk_end(&walk);
    return filled != 0;
}

/* Looks at all mappings of the ring, and adds which slots they need. False: not to be seen. */
static bool look(const struct portus_source *source)
{
    struct portus_mapping mapping;
    struct portus_walk walk;
    uint64_t start, end;

    promises.mappings = 0;
    if (source->maps < 0 || source->pages < 0)
        return false;
    portus_walk_begin(&walk, source, 0);
    while (next_shown(&walk, &mapping, &start, &end)) {
        promises.mappings++;
        if (depends(source, mapping.start, mapping.end))
            need(start, end);
    }
    portus_walk_end(&walk);
    return true;
}

void promise_reclaim(struct portus_writer *writer)
{
    if (promises.count == 0 && promises.mappings < MAPPINGS)
        return;
    for (unsigned i = 0; i < promises.count; i++)
        promises.entry[i].needed = promises.entry[i].kept;
    for (unsigned looks = 0; looks < LOOKS; looks++)
        if (!look(&writer->source))
            return;
    for (unsigned i = promises.count; i-- > 0;)
        if (!promises.entry[i].needed)
            drop(writer, i);
}

/* Whether the table has anything of this writer's. */
static bool any_of(struct portus_writer *writer)
{
    bool any;

    if (!promise_enter(writer))
        return false;
    any = promises.count > 0 || promises.mappings >= MAPPINGS;
    portus_unlock(&promises.lock);
    return any;
}

static void reclaim_of(struct portus_writer *writer, enum promise_wish wish)
{
    if (!any_of(writer))
        return;
    promise_fill_some(writer, wish, UINT64_MAX);
    if (!promise_enter(writer))
        return;
    promise_reclaim(writer);
    portus_unlock(&promises.lock);
}

void promise_relieve(struct portus_writer *writer)
{
    reclaim_of(writer, PROMISE_ALL);
}

void promise_settle(void)
{
    struct guard guard;

    if (!atomic_load(&promise_made) || !shim_own() || !shim_use())
        return;
    guard = shim_guard();
    reclaim_of(&shim.writer, PROMISE_ALL);
    shim_unguard(&guard);
    shim_done();
}

/* With the lock. Whether what was written, and is still shown, may stay in the ring. */
static bool may_stay(const struct portus_writer *writer)
{
    uint64_t bytes = 0, ring = atomic_load(&writer->session->ring_bytes), most;

    for (unsigned i = 0; i < promises.count; i++)
        bytes += promises.entry[i].written ? promises.entry[i].slot.length : 0;
    most = ring / LEFT_PART > LEFT_LEAST ? ring / LEFT_PART : LEFT_LEAST;
    return bytes == 0 ||
           (bytes <= least(most, ring / LEFT_MOST) && atomic_load(&writer->session->unpin) == 0);
}

bool promise_rest(bool fill)
{
    struct portus_writer *writer = &shim.writer;
    struct guard guard;
    bool through = true;

    if (!atomic_load(&promise_made) || !shim_own() || !shim_use())
        return true;
    guard = shim_guard();
    if (any_of(writer) && promise_enter(writer)) {
        promise_reclaim(writer);
        through = may_stay(writer);
        portus_unlock(&promises.lock);
    }
    if (!through && fill) {
        reclaim_of(writer, PROMISE_WRITTEN);
        through = true;
    }
    shim_unguard(&guard);
    shim_done();
    return through;
}

/* --- fork --- */

void promise_before_fork(void)
{
    portus_lock(&promises.lock);
    if (promises.count == 0 || !atomic_load(&shim.connected) ||
        promises.opened != shim.writer.opened)
        return;
    promise_fill_some(&shim.writer, PROMISE_ALL, UINT64_MAX); /* made since */
    promise_reclaim(&shim.writer);
    for (unsigned i = 0; i < promises.count; i++) /* what could not be settled the child has, too */
        promises.entry[i].kept = true;
}

void promise_after_fork(void)
{
    portus_unlock(&promises.lock);
}
