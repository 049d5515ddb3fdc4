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
 *   a slot is given back only when nobody sees it any more (promise_settle.c).
 *
 * The lock is held for a short while only, never while the drain is waited for or memory is
 * filled, however much there is. Before it:
 * shim.lock, a file's lock. After it: the writer's.
 */
#include "promise_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/pages.h"
#include "common/copy.h"
#include "common/log.h"
#include "real.h"
#include "shim.h"
#include "summary.h"
#include "versions.h"

#define STATUS 512 /* read at once */
#define WORD 8     /* "\nVmLck:" */
#define CROWDED_NS 1000000000ull
#define PATIENCE_NS 500000000ull
#define TRIES 4 /* for room: in the end 3 times as much as is lacking */

_Atomic bool promise_made;

struct promises promises;
static uint64_t crowded; /* when it was seen last that there are too many, ns */

bool promise_enter(struct portus_writer *writer)
{
    portus_lock(&promises.lock);
    if (promises.opened == writer->opened)
        return true;
    portus_unlock(&promises.lock);
    return false;
}

/* --- making them --- */

/* Memory whose pages stay: UINT64_MAX where it cannot be seen. */
struct held {
    uint64_t locked, pinned;
};

static uint64_t kibibytes(const char *line)
{
    return strtoull(strchr(line, ':') + 1, NULL, 10) << 10;
}

/* Two lines of proc_pid_status(5), one behind the other; those before may be long. */
static struct held held(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
    struct held held = {UINT64_MAX, UINT64_MAX};
    char text[STATUS + 1], *locked, *pinned;
    size_t kept = 0;
    long length;

    while (fd >= 0 && held.pinned == UINT64_MAX &&
           (length = syscall(SYS_read, fd, text + kept, STATUS - kept)) > 0) {
        length += (long)kept;
        text[length] = '\0';
        locked = strstr(text, "\nVmLck:");
        pinned = locked != NULL ? strstr(locked, "\nVmPin:") : NULL;
        if (pinned != NULL && strchr(pinned + 1, '\n') != NULL)
            held = (struct held){kibibytes(locked), kibibytes(pinned)};
        if (locked == NULL)
            locked = text + length - (length < WORD ? length : WORD);
        kept = (size_t)(text + length - locked);
        memmove(text, locked, kept);
    }
    if (fd >= 0)
        syscall(SYS_close, fd);
    return held;
}

/* Of the ring, as far as the kernel counts what a driver has pinned. */
static _Atomic uint64_t ours;

uint64_t promise_pins(void)
{
    return held().pinned;
}

void promise_pins_ours(uint64_t bytes)
{
    atomic_store(&ours, bytes);
}

/* Memory that others may have pinned, or that is locked: its pages must stay as they are. */
static bool pinned_or_locked(void)
{
    struct held now = held();

    return now.pinned > atomic_load(&ours) || now.locked != 0;
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
            (mapping.inode != 0 && !promise_of_ring(&mapping)) ||
            (here >= mapping.start && here < mapping.end))
            return false;
    return start < end;
}

bool promise_possible(const void *to, size_t length)
{
    return shim.writer.source.pages >= 0 && !atomic_load(&portus_source_keyed) && !purged() &&
           !pinned_or_locked() &&
           ordinary(&shim.writer.source, page_down((uintptr_t)to), page_up((uintptr_t)to + length));
}

/* A table for this writer. */
static void begin(struct portus_writer *writer)
{
    struct stat file;

    if (promises.opened == writer->opened)
        return;
    promises.count = promises.mappings = 0;
    promises.device = promises.inode = 0;
    if (fstat(writer->link.memory, &file) == 0) {
        promises.device = file.st_dev;
        promises.inode = file.st_ino;
    }
    promises.opened = writer->opened;
    writer->relieve = promise_relieve;
}

bool promise_room(struct portus_writer *writer, const void *to, size_t length,
                  struct portus_slot *slot)
{
    uint32_t in_page = (uint32_t)((uintptr_t)to % PAGE);
    bool taken = portus_slot_take(writer, in_page, length, slot);
    struct portus_patience patience = {0};
    uint64_t began = 0;

    for (unsigned tries = 0; !taken && tries < TRIES; tries++) {
        if (tries == 1) /* and what is shown has to go: the next save is to have room for both */
            portus_slot_lacked(writer, length);
        if (tries > 0 && !promise_fill_some(writer, PROMISE_WRITTEN, tries * length))
            break;
        portus_lock(&promises.lock);
        begin(writer);
        promise_reclaim(writer);
        portus_unlock(&promises.lock);
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
           mapping.end >= end && promise_of_ring(&mapping);
}

/* With the lock. Whether it was. */
static bool make(struct portus_writer *writer, uintptr_t to, const struct portus_slot *slot,
                 uint64_t from)
{
    const uint8_t *data = writer->data + slot->position;
    uintptr_t start = page_up(to), end = page_down(to + slot->length);
    void *map;

    if (shim.env.promise != PORTUS_PROMISE_AUTO || start >= end || promises.inode == 0)
        return false;
    if ((promises.count == PROMISES || promises.mappings >= MAPPINGS) &&
        portus_now() - crowded > CROWDED_NS) {
        promise_reclaim(writer);
        crowded = portus_now();
    }
    if (promises.count == PROMISES || promises.mappings >= MAPPINGS ||
        !ordinary(&writer->source, page_down(to), page_up(to + slot->length)))
        return false;
    map = (void *)syscall(SYS_mmap, start, end - start, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_FIXED, writer->link.memory,
                          PORTUS_RING_DATA + slot->position + (start - to));
    if (map == MAP_FAILED) {
        log_debug("a promise cannot be mapped: %s", strerror(errno));
        /* Before 6.12 what was there may be gone. */
        if (!ordinary(&writer->source, start, end))
            promise_empty(start, end, PROT_READ | PROT_WRITE);
        return false;
    }
    atomic_store(&promise_made, true);
    if (!shows_ring(&writer->source, start, end)) {
        promise_empty(start, end, PROT_READ | PROT_WRITE);
        return false;
    }
    promises.mappings++;
    promises.entry[promises.count++] =
        (struct promise){.from = to, .to = to + slot->length, .slot = *slot, .device = from};
    memcpy((void *)to, data, start - to);
    memcpy((void *)end, data + (end - to), to + slot->length - end);
    return true;
}

void promise_make(struct portus_writer *writer, void *to, const struct portus_slot *slot,
                  uint64_t from)
{
    bool made;

    portus_lock(&promises.lock);
    begin(writer);
    made = make(writer, (uintptr_t)to, slot, from);
    portus_unlock(&promises.lock);
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
    for (unsigned i = promises.count; i-- > 0;) {
        if (promises.entry[i].from <= at && at < promises.entry[i].to)
            return &promises.entry[i];
        if (promises.entry[i].from > at && promises.entry[i].from < *first)
            *first = promises.entry[i].from;
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

        if (!portus_mapping_at(source, at, &mapping) || mapping.start > at ||
            !promise_of_ring(&mapping) || !(mapping.flags & PORTUS_MAPPING_READ) ||
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

    while (done < length && atomic_load(&promise_made) && promise_enter(writer)) {
        part = promises.count > 0 ? next(writer, bytes + done, length - done, &slot) : 0;
        portus_unlock(&promises.lock);
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
    const uint8_t *bytes = data, *from;
    struct portus_slot slot;
    uint32_t sum = 0;
    size_t done = 0, part;

    while (done < length && atomic_load(&promise_made) && promise_enter(writer)) {
        part = promises.count > 0 ? next(writer, bytes + done, length - done, &slot) : 0;
        portus_unlock(&promises.lock);
        from = slot.length != 0 ? writer->data + slot.position : bytes + done;
        if (part == 0 ||
            (slot.length == 0 &&
             (part > length / 2 || !portus_source_readable(&writer->source, bytes + done, part))))
            return false;
        sum = portus_crc32(sum, from, part);
        if (slot.length != 0)
            portus_slot_give(writer, &slot);
        done += part;
    }
    *crc = sum;
    return done == length;
}

/* --- the process --- */

void promise_forget(void)
{
    memset(&promises.lock, 0, sizeof(promises.lock));
    promises.count = promises.mappings = 0;
    promises.opened = 0; /* device and inode stay: the mappings are here, too */
}

void promise_leave(void)
{
    portus_lock(&promises.lock);
    promises.count = 0;
    promises.opened = 0;
    portus_unlock(&promises.lock);
}
