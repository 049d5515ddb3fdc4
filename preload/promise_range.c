/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise_range.c -- what the program does with mappings that a promise may have made
 *
 * Also of a ring that is nobody's any more, or that a forked child has of its parent: these are
 * known by the name of their file, and no table has them.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/pages.h"
#include "promise_private.h"
#include "shim.h"

void promise_empty(uintptr_t start, uintptr_t end, int protection)
{
    syscall(SYS_mmap, start, end - start, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
            0L);
}

/* What memory is asked by: the writer's, if there is one, as no descriptor may be left. */
struct view {
    const struct portus_source *source;
    struct portus_source own;
    struct guard guard;
    bool used;
};

static void view_open(struct view *view)
{
    view->guard = shim_guard();
    view->own = (struct portus_source){-1, -1};
    view->used = shim_own() && shim_use();
    view->source = view->used && shim.writer.source.maps >= 0 ? &shim.writer.source : &view->own;
    if (view->source == &view->own)
        portus_source_open(&view->own);
}

static void view_close(struct view *view)
{
    portus_source_close(&view->own);
    if (view->used)
        shim_done();
    shim_unguard(&view->guard);
}

/* The next mapping that begins below `end` and may be a promise's. */
static bool next_part(struct portus_walk *walk, uintptr_t end, struct portus_mapping *part)
{
    while (portus_walk_next(walk, part) && part->start < end)
        if (promise_of_rings(part))
            return true;
    return false;
}

static int protection_of(uint32_t flags)
{
    return ((flags & PORTUS_MAPPING_READ) ? PROT_READ : 0) |
           ((flags & PORTUS_MAPPING_WRITE) ? PROT_WRITE : 0);
}

/* Puts one anonymous mapping with the same bytes in the place of what is there. */
static bool replace(uintptr_t start, uintptr_t end, int protection)
{
    void *copy = (void *)syscall(SYS_mmap, NULL, end - start, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

    if (copy == MAP_FAILED)
        return false;
    memcpy(copy, (void *)start, end - start);
    syscall(SYS_mprotect, copy, end - start, protection);
    if (syscall(SYS_mremap, copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, start) >=
        0)
        return true;
    syscall(SYS_munmap, copy, end - start);
    return false;
}

/* replace, also of what may not be read yet. */
static void keep(uintptr_t start, uintptr_t end, int protection)
{
    if (!(protection & PROT_READ) && syscall(SYS_mprotect, start, end - start, PROT_READ) != 0)
        return;
    if (!replace(start, end, protection))
        syscall(SYS_mprotect, start, end - start, protection);
}

enum change { FILL, KEEP, EMPTY };

static void change_range(const void *start, size_t length, enum change change)
{
    uintptr_t at = page_down((uintptr_t)start), end = page_up((uintptr_t)start + length);
    struct portus_mapping part;
    struct portus_walk walk;
    struct view view;

    if (!atomic_load(&promise_made) || end <= at)
        return;
    view_open(&view);
    portus_walk_begin(&walk, view.source, at);
    while (next_part(&walk, end, &part)) {
        uintptr_t from = part.start > at ? part.start : at, to = least(part.end, end);
        if (change == FILL)
            promise_fill(&part, from, to);
        else if (change == KEEP)
            keep(from, to, protection_of(part.flags));
        else
            promise_empty(from, to, protection_of(part.flags));
    }
    portus_walk_end(&walk);
    view_close(&view);
}

void promise_settle_range(const void *start, size_t length)
{
    change_range(start, length, FILL);
}

void promise_end_range(void *start, size_t length, bool kept)
{
    change_range(start, length, kept ? KEEP : EMPTY);
}

bool promise_any(const void *start, size_t length)
{
    uintptr_t at = page_down((uintptr_t)start), end = page_up((uintptr_t)start + length);
    struct portus_mapping part;
    struct portus_walk walk;
    struct view view;
    bool any;

    if (!atomic_load(&promise_made))
        return false;
    view_open(&view);
    portus_walk_begin(&walk, view.source, at);
    any = next_part(&walk, end, &part);
    portus_walk_end(&walk);
    view_close(&view);
    return any;
}

/* Whether they are several, and all such as a promise leaves in ordinary memory. */
static bool to_be_joined(const struct portus_source *source, uintptr_t start, uintptr_t end,
                         int *protection)
{
    struct portus_mapping mapping;
    uint32_t flags = 0;
    unsigned pieces = 0;
    uintptr_t at = start;

    while (at < end && portus_mapping_at(source, at, &mapping) && mapping.start <= at &&
           (pieces == 0 || mapping.flags == flags) && !(mapping.flags & PORTUS_MAPPING_SHARED) &&
           (promise_of_rings(&mapping) || (mapping.inode == 0 && mapping.name[0] != '['))) {
        flags = mapping.flags;
        pieces++;
        at = mapping.end;
    }
    *protection = protection_of(flags);
    return at >= end && pieces > 1 && (flags & PORTUS_MAPPING_READ);
}

bool promise_join(void *start, size_t length)
{
    uintptr_t at = (uintptr_t)start, end = page_up(at + length);
    struct view view;
    int protection;
    bool done;

    if (!atomic_load(&promise_made) || end <= at || page_down(at) != at)
        return false;
    view_open(&view);
    done = to_be_joined(view.source, at, end, &protection) && replace(at, end, protection);
    view_close(&view);
    return done;
}
