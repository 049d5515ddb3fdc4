/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scrub.c -- one pass over a pool
 *
 * Not here: when and how fast (watch.c of portusd, scrub.c of portusctl), and where right
 * bytes come from (original.c).
 *
 * A copy is only written where it is wrong, and the other one is right by then, or
 * neither was: so a power cut in the middle leaves what recovery knows. An extent is
 * written in place: it was wrong, so whatever a power cut leaves of it is no worse, and
 * its CRC tells.
 */
#include "store/scrub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/copy.h"
#include "common/log.h"
#include "store/pool_private.h"

#define CHUNK 256u /* slots that are read at once */
#define LINES 64   /* that one pass writes */

enum phase { SUPERBLOCKS, SLOTS, VERSIONS, OVER };

struct scrub {
    struct pool *pool;
    enum phase phase;
    uint64_t slot;
    uint64_t first, at;   /* numbers of versions: where it began, what comes next */
    bool wrapped;         /* it began again at the lowest */
    struct body body;     /* of the version that is being looked at */
    uint64_t body_of;     /* its number; 0: none */
    uint64_t extent;      /* of it, that comes next */
    uint64_t bad, mended; /* of its extents, so far */
    uint64_t bad_at;      /* the first one's offset in the file */
    char *bytes;
    unsigned lines;
    struct scrub_report report;
};

#define say(scrub, level, ...)                                                                     \
    do {                                                                                           \
        if ((scrub)->lines++ < LINES)                                                              \
            level(__VA_ARGS__);                                                                    \
        else if ((scrub)->lines == LINES + 1)                                                      \
            log_warn("%s: more was found than is told here", (scrub)->pool->map->path);            \
    } while (0)

int scrub_begin(struct scrub **out, struct pool *pool, uint64_t first)
{
    struct scrub *scrub;

    if (!pool->map->writable)
        return -EROFS;
    scrub = calloc(1, sizeof(*scrub));
    if (scrub == NULL)
        return -ENOMEM;
    scrub->pool = pool;
    scrub->first = scrub->at = first;
    scrub->report.total = 2 * pool->super.slots * sizeof(struct portus_pool_slot);
    for (size_t i = 0; i < pool->count; i++)
        if (!pool->entries[i].dead)
            scrub->report.total += pool->entries[i].units * PORTUS_POOL_UNIT;
    *out = scrub;
    return 0;
}

void scrub_end(struct scrub *scrub)
{
    if (scrub == NULL)
        return;
    body_free(&scrub->body);
    free(scrub->bytes);
    free(scrub);
}

void scrub_look(const struct scrub *scrub, struct scrub_report *report)
{
    *report = scrub->report;
    if (report->done > report->total || scrub->phase == OVER)
        report->done = report->total; /* versions come and go meanwhile */
}

/* ---- superblocks ---- */

static void mend_superblock(struct scrub *scrub, int copy)
{
    struct pool *pool = scrub->pool;
    struct portus_pool_superblock there;
    int error = map_read(pool->map, super_offset(copy), &there, sizeof(there));

    if (error == 0 && memcmp(&there, &pool->super, sizeof(there)) == 0)
        return;
    error = map_write(pool->map, super_offset(copy), &pool->super, sizeof(pool->super));
    if (error == 0)
        error = map_fence(pool->map);
    scrub->report.copies += error == 0;
    say(scrub, log_warn, "%s: superblock %d is damaged: %s", pool->map->path, copy,
        error == 0 ? "written anew" : "could not be written anew");
}

/* ---- slots ---- */

static bool taken(const struct space *space, uint64_t unit)
{
    return space->bits[unit / 64] >> unit % 64 & 1;
}

static struct entry *entry_of(const struct pool *pool, uint32_t slot)
{
    for (size_t i = 0; i < pool->count; i++)
        if (!pool->entries[i].dead && pool->entries[i].slot == slot)
            return &pool->entries[i];
    return NULL;
}

static void read_slot(struct pool *pool, uint32_t slot, struct portus_pool_slot copies[2])
{
    for (int copy = 0; copy < 2; copy++)
        if (map_read(pool->map, slot_offset(&pool->super, slot, copy), &copies[copy],
                     sizeof(copies[copy])) != 0)
            memset(&copies[copy], 0xff, sizeof(copies[copy]));
}

static bool slot_right(const struct pool *pool, uint32_t slot,
                       const struct portus_pool_slot copies[2])
{
    struct portus_pool_marks marks;

    return slot_judge(pool->super.uuid, slot, copies) == SLOT_COMMITTED &&
           slot_marks(pool->super.uuid, slot, copies[0].number, copies, &marks) == MARKS_VALID;
}

/* Of a version: all but the marks is known here, whatever both copies say. */
static void mend_used(struct scrub *scrub, uint32_t slot, struct portus_pool_slot copies[2])
{
    struct pool *pool = scrub->pool;
    struct entry *entry = entry_of(pool, slot);
    struct portus_pool_slot line = {0};
    struct portus_pool_marks marks;
    enum marks_state state;
    int error = 0;

    if (entry == NULL)
        return; /* found damaged at the opening, or a commit that failed half way */
    line.number = entry->number;
    line.takes = entry->takes;
    line.body = entry->body;
    line.body_bytes = entry->body_bytes;
    line.body_crc = entry->body_crc;
    line.crc = slot_crc(pool->super.uuid, slot, &line);
    line.commit = slot_word(pool->super.uuid, slot, line.number);
    state = slot_marks(pool->super.uuid, slot, entry->number, copies, &marks);
    for (int copy = 0; copy < 2 && error == 0; copy++)
        if (memcmp(&copies[copy], &line, offsetof(struct portus_pool_slot, marks)) != 0)
            error = slot_rewrite(pool->map, &pool->super, slot, &line, copy);
    if (error == 0 && state != MARKS_VALID) {
        if (state == MARKS_LOST)
            marks.flags = (entry->pinned ? PORTUS_POOL_PINNED : 0) |
                          (entry->damaged ? PORTUS_POOL_DAMAGED : 0);
        error = slot_mend_marks(pool->map, &pool->super, slot, copies, &marks);
    }
    read_slot(pool, slot, copies);
    if (error == 0 && slot_right(pool, slot, copies)) {
        entry->copy = 0;
        scrub->report.copies++;
        say(scrub, log_warn, "%s: slot %u: a copy of version %llu was damaged: written anew",
            pool->map->path, slot, (unsigned long long)entry->number);
    } else {
        say(scrub, log_warn,
            "%s: slot %u: a copy of version %llu is damaged and cannot be written anew: a bad "
            "block?",
            pool->map->path, slot, (unsigned long long)entry->number);
    }
}

/* Of none: it says so, and which number was used in it last. */
static void mend_free(struct scrub *scrub, uint32_t slot, struct portus_pool_slot copies[2])
{
    struct pool *pool = scrub->pool;
    bool valid[2];
    int error = 0;

    for (int copy = 0; copy < 2; copy++)
        valid[copy] = slot_fields_valid(pool->super.uuid, slot, &copies[copy]);
    if (copies[0].commit == 0 && copies[1].commit == 0 && valid[0] == valid[1])
        return;
    if (copies[0].commit != 0 || copies[1].commit != 0)
        error = slot_retire(pool->map, &pool->super, slot);
    if (error == 0 && valid[0] != valid[1]) {
        struct portus_pool_slot line = copies[valid[1]];

        line.commit = 0;
        error = slot_rewrite(pool->map, &pool->super, slot, &line, valid[0]);
    }
    scrub->report.copies += error == 0;
    say(scrub, log_warn, "%s: slot %u: it is free, and did not look so: %s", pool->map->path, slot,
        error == 0 ? "written anew" : "cannot be written anew: a bad block?");
}

static uint64_t look_at_slots(struct scrub *scrub)
{
    static struct portus_pool_slot read[2][CHUNK];
    struct pool *pool = scrub->pool;
    uint64_t left = pool->super.slots - scrub->slot, count = left < CHUNK ? left : CHUNK;
    struct portus_pool_slot copies[2];
    bool whole = true;

    for (int copy = 0; copy < 2; copy++)
        whole &= map_read(pool->map, slot_offset(&pool->super, scrub->slot, copy), read[copy],
                          count * sizeof(**read)) == 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t slot = scrub->slot + i;

        copies[0] = read[0][i];
        copies[1] = read[1][i];
        if (!whole)
            read_slot(pool, slot, copies);
        if (!taken(&pool->slots, slot))
            mend_free(scrub, slot, copies);
        else if (!slot_right(pool, slot, copies))
            mend_used(scrub, slot, copies);
    }
    scrub->slot += count;
    if (scrub->slot == pool->super.slots)
        scrub->phase = VERSIONS;
    return 2 * count * sizeof(**read);
}

/* ---- versions ---- */

/* The first version of that number or a higher one. */
static struct entry *next_entry(const struct pool *pool, uint64_t number)
{
    size_t place = pool_place(pool, number);

    while (place < pool->count && pool->entries[place].dead)
        place++;
    return place < pool->count ? &pool->entries[place] : NULL;
}

static struct scrub_stamp stamp_of(struct pool *pool, const struct entry *entry,
                                   const struct portus_pool_body *head)
{
    struct scrub_stamp stamp = {head->size, head->mtime, head->ctime};
    struct portus_pool_slot copies[2];
    struct portus_pool_marks marks;

    read_slot(pool, entry->slot, copies);
    slot_marks(pool->super.uuid, entry->slot, entry->number, copies, &marks);
    if (marks.flags & PORTUS_POOL_STAMPED)
        stamp = (struct scrub_stamp){marks.size, marks.mtime, marks.ctime};
    return stamp;
}

static bool extent_right(struct pool *pool, const struct portus_pool_extent *extent)
{
    uint32_t crc = 0;

    return map_read_crc(pool->map, extent->place, NULL, extent->length, &crc) == 0 &&
           crc == extent->crc;
}

/* Writes an extent anew with the bytes of the file, if those are right. */
static bool mend_extent(struct scrub *scrub, const struct entry *entry,
                        const struct portus_pool_extent *extent, scrub_fetch *fetch)
{
    const struct portus_pool_body *head = scrub->body.head;
    struct pool *pool = scrub->pool;
    struct scrub_stamp stamp = stamp_of(pool, entry, head);
    struct pool_version version = {.number = entry->number, .place = entry->slot};

    if (scrub->bytes == NULL)
        scrub->bytes = malloc(PORTUS_POOL_EXTENT);
    if (scrub->bytes == NULL || fetch == NULL)
        return false;
    memcpy(version.key.file_system, head->file_system, sizeof(head->file_system));
    version.key.handle_type = head->handle_type;
    version.key.handle_bytes = head->handle_bytes;
    memcpy(version.key.handle, scrub->body.handle, head->handle_bytes);
    version.attributes = body_attributes(head, scrub->body.path, scrub->body.job);
    if (fetch(&version, &stamp, extent->offset, scrub->bytes, extent->length) != 0 ||
        portus_crc32(0, scrub->bytes, extent->length) != extent->crc)
        return false;
    return map_write(pool->map, extent->place, scrub->bytes, extent->length) == 0 &&
           map_fence(pool->map) == 0 && extent_right(pool, extent);
}

static void mark(struct scrub *scrub, struct entry *entry, bool damaged)
{
    if (entry->damaged == damaged)
        return;
    entry->damaged = damaged; /* if it cannot be written down it is said again some day */
    room_moved(scrub->pool);  /* what it supersedes, or does not */
    pool_flag(scrub->pool, entry, PORTUS_POOL_DAMAGED, damaged);
}

/* All of a version has been looked at. */
static void judge(struct scrub *scrub, struct entry *entry)
{
    const char *path = scrub->pool->map->path;
    unsigned long long number = entry->number;

    if (scrub->bad > 0) {
        scrub->report.damaged++;
        if (!entry->damaged)
            say(scrub, log_error,
                "%s: version %llu of %s is damaged, from byte %llu on, and its file cannot mend "
                "it: an older or newer one can be restored",
                path, number, scrub->body.path, (unsigned long long)scrub->bad_at);
    } else if (scrub->mended > 0) {
        scrub->report.repaired++;
        say(scrub, log_warn, "%s: version %llu of %s was damaged: repaired from the file", path,
            number, scrub->body.path);
    }
    mark(scrub, entry, scrub->bad > 0);
}

static void next_version(struct scrub *scrub, uint64_t number)
{
    scrub->at = number;
    scrub->body_of = 0;
    scrub->extent = scrub->bad = scrub->mended = 0;
}

/* A piece of one version. */
static int look_at_version(struct scrub *scrub, uint64_t bytes, scrub_fetch *fetch, uint64_t *done)
{
    struct pool *pool = scrub->pool;
    struct entry *entry = next_entry(pool, scrub->at);
    const char *why;
    int error;

    if (entry != NULL && scrub->wrapped && entry->number >= scrub->first)
        entry = NULL;
    if (entry == NULL) {
        next_version(scrub, 1);
        if (scrub->wrapped || scrub->first <= 1)
            scrub->phase = OVER;
        scrub->wrapped = true;
        return 0;
    }
    if (scrub->body_of != entry->number) {
        next_version(scrub, entry->number);
        *done += entry->body_bytes;
        error = body_load(&scrub->body, pool->map, &pool->bounds, entry->number, entry->body,
                          entry->body_bytes, entry->body_crc, &why);
        if (error == -ENOMEM)
            return error;
        if (error != 0) {
            scrub->report.damaged++;
            if (!entry->damaged)
                say(scrub, log_error,
                    "%s: version %llu is damaged: %s: portusctl pool check --remove-damaged "
                    "frees what it takes",
                    pool->map->path, (unsigned long long)entry->number, why);
            mark(scrub, entry, true);
            next_version(scrub, entry->number + 1);
            return 0;
        }
        scrub->body_of = entry->number;
    }
    while (scrub->extent < scrub->body.head->extents && *done < bytes) {
        const struct portus_pool_extent *extent = &scrub->body.extents[scrub->extent++];

        *done += extent->length;
        if (extent_right(pool, extent))
            continue;
        if (mend_extent(scrub, entry, extent, fetch))
            scrub->mended++;
        else if (scrub->bad++ == 0)
            scrub->bad_at = extent->offset;
    }
    if (scrub->extent == scrub->body.head->extents) {
        judge(scrub, entry);
        next_version(scrub, entry->number + 1);
    }
    return 0;
}

int scrub_step(struct scrub *scrub, uint64_t bytes, scrub_fetch *fetch)
{
    uint64_t done = 0;
    int error = 0;

    if (scrub->phase == SUPERBLOCKS) {
        mend_superblock(scrub, 0);
        mend_superblock(scrub, 1);
        scrub->phase = SLOTS;
    }
    while (done < bytes && error == 0 && scrub->phase != OVER) {
        if (scrub->pool->map->failed != 0)
            return scrub->pool->map->failed;
        if (scrub->phase == SLOTS)
            done += look_at_slots(scrub);
        else
            error = look_at_version(scrub, bytes, fetch, &done);
    }
    scrub->report.done += done;
    return error != 0 ? error : scrub->phase != OVER;
}
