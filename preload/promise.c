/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise.c -- memory of the program whose bytes lie in the ring
 *
 * The kernel keeps the promise: a private mapping shows the slot's pages until they are written
 * to. The table here is only a list of slots that are still needed, each with the place where
 * it was mapped first. What is true of a mapping is asked of the kernel, every time: a program can
 * unmap, move or cover it without our seeing it (free does). So
 *
 *   a write refers to a page of a slot only if the ring is mapped there, privately and at that
 *   place of it, and the page tables say that the page is not the process's own;
 *
 *   a slot is given back only when no private mapping of it is left anywhere in the process
 *   that has a page which is not its own. Two looks must agree, as a mapping may just be moved.
 *
 * Promised memory is settled by having the kernel copy each page as for a write.
 *
 * The lock is held for a short while only, never while the drain is waited for. Before it:
 * shim.lock, a file's lock. After it: the writer's.
 */
#include "promise.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/pages.h"
#include "common/copy.h"
#include "common/log.h"
#include "origin.h"
#include "real.h"
#include "shim.h"
#include "summary.h"
#include "versions.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096ul
#define PROMISES 4096
#define MAPPINGS 8192 /* of the ring at most: a process may have 65530 of all kinds */
#define LOOKS 2
#define STATUS 4096
#define CROWDED_NS 1000000000ull
#define PATIENCE_NS 500000000ull

/* A slot that is needed. */
struct promise {
    uintptr_t from, to; /* where its bytes were to appear */
    struct portus_slot slot;
    uint64_t device; /* where it was copied from */
    bool needed;     /* of this look */
    bool written;    /* to a file */
    bool kept;       /* a child that we do not see may have it: never given back */
};

_Atomic bool promise_made;

static struct portus_lock lock;
static struct promise promises[PROMISES];
static unsigned count;
static unsigned mappings; /* of the ring, about */
static uint64_t crowded;  /* when it was seen last that there are too many, ns */
static uint32_t opened;   /* the writer that the table belongs to */
static uint64_t device, inode;

static uintptr_t page_up(uintptr_t at)
{
    return (at + PAGE - 1) & ~(PAGE - 1);
}

static uintptr_t page_down(uintptr_t at)
{
    return at & ~(PAGE - 1);
}

static uintptr_t least(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

/* Whether a mapping is one of the ring's that a promise made. */
static bool of_ring(const struct portus_mapping *mapping)
{
    return mapping->inode == inode && mapping->device == device && inode != 0 &&
           !(mapping->flags & PORTUS_MAPPING_SHARED);
}

/* The same of any ring that this process, or one that it was forked from, ever had. */
static bool of_rings(const struct portus_mapping *mapping)
{
    return strncmp(mapping->name, "/memfd:portus-ring", 18) == 0 &&
           !(mapping->flags & PORTUS_MAPPING_SHARED);
}

/* --- giving slots back --- */

static void drop(struct portus_writer *writer, unsigned number)
{
    if (!promises[number].written)
        origin_unsaved(promises[number].device, promises[number].slot.length);
    portus_slot_give(writer, &promises[number].slot);
    promises[number] = promises[--count];
}

/* The mapping shows this part of the ring's data; says so of the slots in it. */
static void need(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < count; i++)
        promises[i].needed |= promises[i].slot.position < end &&
                              start < promises[i].slot.position + promises[i].slot.length;
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

/* Fills a part of one mapping. */
static void fill(const struct portus_mapping *mapping, uintptr_t start, uintptr_t end)
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

enum wish { LOOK, SETTLE_WRITTEN, SETTLE_ALL };

/* Whether a mapping shows nothing but slots that were written, or nobody's. */
static bool all_written(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < count; i++)
        if (!promises[i].written && promises[i].slot.position < end &&
            start < promises[i].slot.position + promises[i].slot.length)
            return false;
    return true;
}

/* Looks at all mappings of the ring, and notes which slots they need. False: not to be seen. */
static bool look(const struct portus_source *source, enum wish wish)
{
    struct portus_mapping mapping;
    struct portus_walk walk;

    for (unsigned i = 0; i < count; i++)
        promises[i].needed = false;
    mappings = 0;
    if (source->maps < 0 || source->pages < 0)
        return false;
    portus_walk_begin(&walk, source, 0);
    while (portus_walk_next(&walk, &mapping)) {
        uint64_t start, end;

        if (!of_ring(&mapping) || mapping.offset < PORTUS_RING_DATA)
            continue;
        mappings++;
        start = mapping.offset - PORTUS_RING_DATA;
        end = start + (mapping.end - mapping.start);
        if (!depends(source, mapping.start, mapping.end))
            continue;
        if (wish == SETTLE_ALL || (wish == SETTLE_WRITTEN && all_written(start, end))) {
            fill(&mapping, mapping.start, mapping.end);
            if (!depends(source, mapping.start, mapping.end))
                continue;
        }
        need(start, end);
    }
    return true;
}

/* With the lock. Settles what is wished, and gives back what nobody needs. */
static void reclaim(struct portus_writer *writer, enum wish wish)
{
    bool unneeded[PROMISES];

    if (count == 0 && mappings < MAPPINGS)
        return;
    for (unsigned i = 0; i < count; i++)
        unneeded[i] = !promises[i].kept;
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        if (!look(&writer->source, looks == 0 ? wish : LOOK))
            return;
        for (unsigned i = 0; i < count; i++)
            unneeded[i] &= !promises[i].needed;
    }
    for (unsigned i = count; i-- > 0;)
        if (unneeded[i])
            drop(writer, i);
}

/* The lock, for who has the writer that the table belongs to. */
static bool enter(struct portus_writer *writer)
{
    portus_lock(&lock);
    if (opened == writer->opened)
        return true;
    portus_unlock(&lock);
    return false;
}

static void reclaim_of(struct portus_writer *writer, enum wish wish)
{
    if (!enter(writer))
        return;
    reclaim(writer, wish);
    portus_unlock(&lock);
}

static void relieve(struct portus_writer *writer)
{
    reclaim_of(writer, SETTLE_ALL);
}

static void settle(enum wish wish)
{
    struct guard guard;

    if (!atomic_load(&promise_made) || !shim_own() || !shim_use())
        return;
    guard = shim_guard();
    reclaim_of(&shim.writer, wish);
    shim_unguard(&guard);
    shim_done();
}

void promise_settle(void)
{
    settle(SETTLE_ALL);
}

void promise_rest(void)
{
    settle(SETTLE_WRITTEN);
}

/* --- making them --- */

/* proc_pid_status(5); "" where it cannot be seen. */
static void read_status(char *text, size_t room)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
    long length = fd < 0 ? 0 : syscall(SYS_read, fd, text, room - 1);

    if (fd >= 0)
        syscall(SYS_close, fd);
    text[length > 0 ? length : 0] = '\0';
}

/* A line of it, in bytes; or all that there is, where it is not there. */
static uint64_t line(const char *status, const char *word)
{
    const char *at = strstr(status, word);

    return at == NULL ? UINT64_MAX : strtoull(at + strlen(word), NULL, 10) << 10;
}

/* Of the ring, as far as the kernel counts what a driver has pinned. */
static _Atomic uint64_t ours;

uint64_t promise_pins(void)
{
    char status[STATUS];

    read_status(status, sizeof(status));
    return line(status, "\nVmPin:");
}

void promise_pins_ours(uint64_t bytes)
{
    atomic_store(&ours, bytes);
}

/* Memory that others may have pinned, or that is locked: its pages must stay as they are. */
static bool pinned_or_locked(void)
{
    char status[STATUS];

    read_status(status, sizeof(status));
    return line(status, "\nVmPin:") > atomic_load(&ours) || line(status, "\nVmLck:") != 0;
}

/*
 * Allocators that give pages back while they keep the addresses, and expect zeros there. By
 * madvise, which is hooked, but perhaps not by libc's.
 */
static bool purged(void)
{
    static const char *const names[] = {"mallctl", "je_mallctl", "mi_version",
                                        "MallocExtension_ReleaseFreeMemory"};
    static _Atomic int known; /* 1 no, 2 yes */

    if (known == 0) {
        known = 1;
        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (real_symbol(RTLD_DEFAULT, names[i]) != NULL)
                known = 2;
        if (known == 2)
            log_info("an allocator that purges is there: device memory is copied by the CPU");
    }
    return known == 2;
}

static bool ordinary(const struct portus_source *source, uintptr_t start, uintptr_t end)
{
    const uint32_t flags = PORTUS_MAPPING_READ | PORTUS_MAPPING_WRITE;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct portus_mapping mapping;

    for (uintptr_t at = start; at < end; at = mapping.end)
        if (!portus_mapping_at(source, at, &mapping) || mapping.start > at ||
            strcmp(mapping.name, "[stack]") == 0 || mapping.flags != flags ||
            (mapping.inode != 0 && !of_ring(&mapping)) ||
            (here >= mapping.start && here < mapping.end))
            return false;
    return start < end;
}

bool promise_possible(const void *to, size_t length)
{
    return shim.writer.source.pages >= 0 && !purged() && !pinned_or_locked() &&
           ordinary(&shim.writer.source, page_down((uintptr_t)to), page_up((uintptr_t)to + length));
}

/* A table for this writer. */
static void begin(struct portus_writer *writer)
{
    struct stat file;

    if (opened == writer->opened)
        return;
    count = mappings = 0;
    device = inode = 0;
    if (fstat(writer->link.memory, &file) == 0) {
        device = file.st_dev;
        inode = file.st_ino;
    }
    opened = writer->opened;
    writer->relieve = relieve;
}

bool promise_room(struct portus_writer *writer, const void *to, size_t length,
                  struct portus_slot *slot)
{
    uint32_t in_page = (uint32_t)((uintptr_t)to % PAGE);
    bool taken = portus_slot_take(writer, in_page, length, slot);
    struct portus_patience patience = {0};
    uint64_t began = 0;

    for (enum wish wish = LOOK; !taken && wish <= SETTLE_WRITTEN; wish++) {
        portus_lock(&lock);
        begin(writer);
        reclaim(writer, wish);
        portus_unlock(&lock);
        taken = portus_slot_take(writer, in_page, length, slot);
        /* For the drain the write would wait, too. */
        while (!taken && portus_slot_pending(writer) &&
               (began == 0 || portus_now() - began < PATIENCE_NS)) {
            began = began == 0 ? portus_now() : began;
            portus_writer_pause(writer, &patience);
            taken = portus_slot_take(writer, in_page, length, slot);
        }
    }
    if (began != 0)
        summary_waited(portus_now() - began);
    return taken;
}

/* Whether it is the ring that was mapped there: its number may have been closed behind us. */
static bool shows_ring(const struct portus_source *source, uintptr_t start, uintptr_t end)
{
    struct portus_mapping mapping;

    return portus_mapping_at(source, start, &mapping) && mapping.start <= start &&
           mapping.end >= end && of_ring(&mapping);
}

/* Puts memory of no file, with zeros, in the place of what is there. */
static void empty(uintptr_t start, uintptr_t end, int protection)
{
    syscall(SYS_mmap, start, end - start, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
            0L);
}

/* With the lock. Whether it was. */
static bool make(struct portus_writer *writer, uintptr_t to, const struct portus_slot *slot,
                 uint64_t from)
{
    const uint8_t *data = writer->data + slot->position;
    uintptr_t start = page_up(to), end = page_down(to + slot->length);
    void *map;

    if (shim.env.promise != PORTUS_PROMISE_AUTO || start >= end || inode == 0)
        return false;
    if ((count == PROMISES || mappings >= MAPPINGS) && portus_now() - crowded > CROWDED_NS) {
        reclaim(writer, LOOK);
        crowded = portus_now();
    }
    if (count == PROMISES || mappings >= MAPPINGS ||
        !ordinary(&writer->source, page_down(to), page_up(to + slot->length)))
        return false;
    map = (void *)syscall(SYS_mmap, start, end - start, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_FIXED, writer->link.memory,
                          PORTUS_RING_DATA + slot->position + (start - to));
    if (map == MAP_FAILED) {
        log_debug("a promise cannot be mapped: %s", strerror(errno));
        /* Before 6.12 what was there may be gone. */
        if (!ordinary(&writer->source, start, end))
            empty(start, end, PROT_READ | PROT_WRITE);
        return false;
    }
    atomic_store(&promise_made, true);
    if (!shows_ring(&writer->source, start, end)) {
        empty(start, end, PROT_READ | PROT_WRITE);
        return false;
    }
    mappings++;
    promises[count++] =
        (struct promise){.from = to, .to = to + slot->length, .slot = *slot, .device = from};
    memcpy((void *)to, data, start - to);
    memcpy((void *)end, data + (end - to), to + slot->length - end);
    return true;
}

void promise_make(struct portus_writer *writer, void *to, const struct portus_slot *slot,
                  uint64_t from)
{
    bool made;

    portus_lock(&lock);
    begin(writer);
    made = make(writer, (uintptr_t)to, slot, from);
    portus_unlock(&lock);
    if (made)
        return;
    portus_copy(to, writer->data + slot->position, slot->length);
    portus_slot_give(writer, slot);
}

/* --- writing them --- */

/* The newest one with a byte in [at, end); *first: the lowest place where one begins. */
static struct promise *find(uintptr_t at, uintptr_t end, uintptr_t *first)
{
    *first = end;
    for (unsigned i = count; i-- > 0;) {
        if (promises[i].from <= at && at < promises[i].to)
            return &promises[i];
        if (promises[i].from > at && promises[i].from < *first)
            *first = promises[i].from;
    }
    return NULL;
}

/*
 * How far the memory from `at` to `end`, in whole pages of a promise, shows the slot. Returns
 * that; if it is `at`, *other is where that may be so again.
 */
static uintptr_t shown(const struct portus_source *source, const struct promise *promise,
                       uintptr_t at, uintptr_t end, uintptr_t *other)
{
    *other = end;
    while (at < end) {
        struct portus_mapping mapping;
        uintptr_t stop, from, to;
        int own;

        if (!portus_mapping_at(source, at, &mapping) || mapping.start > at || !of_ring(&mapping) ||
            !(mapping.flags & PORTUS_MAPPING_READ) ||
            mapping.offset + (at - mapping.start) !=
                PORTUS_RING_DATA + promise->slot.position + (at - promise->from)) {
            *other = least(end, mapping.end > at ? mapping.end : end);
            return at;
        }
        stop = least(end, mapping.end);
        own = portus_pages_own(source, page_down(at), page_up(stop), &from, &to);
        if (own < 0)
            return at;
        if (own == 0) {
            at = stop;
            continue;
        }
        *other = least(end, to);
        return from > at ? from : at;
    }
    return at;
}

/* The same for all of a promise: the ends, which were copied, may still be equal. */
static uintptr_t unchanged(struct portus_writer *writer, const struct promise *promise,
                           uintptr_t at, uintptr_t end, uintptr_t *other)
{
    const uint8_t *data = writer->data + promise->slot.position;
    uintptr_t start = page_up(promise->from), last = page_down(promise->to), stop;

    end = least(end, promise->to);
    *other = end;
    if (at < start) {
        stop = least(end, start);
        if (!portus_source_readable(&writer->source, (void *)at, stop - at) ||
            memcmp((void *)at, data + (at - promise->from), stop - at) != 0) {
            *other = stop;
            return at;
        }
        at = stop;
    }
    if (at < end && at < last) {
        stop = least(end, last);
        at = shown(&writer->source, promise, at, stop, other);
        if (at < stop)
            return at;
        *other = end;
    }
    if (at < end && at >= last && portus_source_readable(&writer->source, (void *)at, end - at) &&
        memcmp((void *)at, data + (at - promise->from), end - at) == 0)
        at = end;
    return at;
}

/*
 * What the bytes from data on are, length at most: a part of a slot, which is held once more, or
 * (slot->length 0) memory. Returns how many.
 */
static size_t next(struct portus_writer *writer, const void *data, size_t length,
                   struct portus_slot *slot)
{
    uintptr_t at = (uintptr_t)data, end = at + length, first, other, stop;
    struct promise *promise;

    slot->length = 0;
    promise = find(at, end, &first);
    if (promise == NULL)
        return first - at;
    promise->written = true;
    stop = unchanged(writer, promise, at, end, &other);
    if (stop == at)
        return other - at;
    slot->position = promise->slot.position + (at - promise->from);
    slot->length = stop - at;
    portus_slot_hold(writer, slot);
    return stop - at;
}

size_t promise_append(struct portus_writer *writer, unsigned file, const void *data, size_t length,
                      uint64_t offset, uint64_t *waited)
{
    const uint8_t *bytes = data;
    size_t done = 0, taken, part;
    struct portus_slot slot;

    while (done < length && atomic_load(&promise_made) && enter(writer)) {
        part = count > 0 ? next(writer, bytes + done, length - done, &slot) : 0;
        portus_unlock(&lock);
        if (part == 0)
            break;
        if (slot.length != 0) {
            taken = portus_slot_append(writer, file, slot.position, part, offset + done, waited);
            portus_slot_give(writer, &slot);
            summary_referred(taken);
        } else {
            taken = portus_writer_append(writer, file, bytes + done, part, offset + done, waited);
        }
        done += taken;
        if (taken < part)
            return done;
    }
    if (done < length)
        done +=
            portus_writer_append(writer, file, bytes + done, length - done, offset + done, waited);
    return done;
}

bool promise_crc(struct portus_writer *writer, const void *data, size_t length, uint32_t *crc)
{
    const uint8_t *bytes = data;
    struct portus_slot slot;
    uint32_t sum = 0;
    size_t done = 0, part;

    while (done < length && atomic_load(&promise_made) && enter(writer)) {
        part = count > 0 ? next(writer, bytes + done, length - done, &slot) : 0;
        portus_unlock(&lock);
        if (part == 0 || slot.length == 0)
            return false;
        sum = portus_crc32(sum, writer->data + slot.position, part);
        portus_slot_give(writer, &slot);
        done += part;
    }
    *crc = sum;
    return done == length;
}

/* --- what the program does with its mappings --- */

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
        if (of_rings(part))
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
    portus_lock(&lock);
    portus_walk_begin(&walk, view.source, at);
    while (next_part(&walk, end, &part)) {
        uintptr_t from = part.start > at ? part.start : at, to = least(part.end, end);
        if (change == FILL)
            fill(&part, from, to);
        else if (change == KEEP)
            keep(from, to, protection_of(part.flags));
        else
            empty(from, to, protection_of(part.flags));
    }
    portus_unlock(&lock);
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
           (of_rings(&mapping) || (mapping.inode == 0 && mapping.name[0] != '['))) {
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
    portus_lock(&lock);
    done = to_be_joined(view.source, at, end, &protection) && replace(at, end, protection);
    portus_unlock(&lock);
    view_close(&view);
    return done;
}

/* --- the process --- */

void promise_before_fork(void)
{
    portus_lock(&lock);
    if (count == 0 || !atomic_load(&shim.connected) || opened != shim.writer.opened)
        return;
    reclaim(&shim.writer, SETTLE_ALL);
    for (unsigned i = 0; i < count; i++) /* what could not be settled the child has, too */
        promises[i].kept = true;
}

void promise_after_fork(void)
{
    portus_unlock(&lock);
}

void promise_forget(void)
{
    memset(&lock, 0, sizeof(lock));
    count = mappings = 0;
    opened = 0; /* device and inode stay: the mappings are here, too */
}

void promise_leave(void)
{
    portus_lock(&lock);
    count = 0;
    opened = 0;
    portus_unlock(&lock);
}
