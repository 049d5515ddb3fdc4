/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages.c -- what lies where in this process's memory, as the kernel says
 *
 * By the ioctls of newer kernels, and by the text and table that older ones have: proc_pid_maps(5)
 * PROCMAP_QUERY, Linux 6.11; mm/pagemap PAGEMAP_SCAN, Linux 6.7. Spelled out, as headers may be
 * older. A page of a private mapping of a file is the file's as long as nobody has written to
 * it: then the kernel has made a copy, which is anonymous memory, present or swapped out.
 *
 * Also called on stacks of signal handlers, which are small.
 */
#include "client/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PAGE 4096ul

struct mapping_query {
    uint64_t size, query_flags, query_addr;
    uint64_t start, end, flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define MAPPING_QUERY _IOWR('f', 17, struct mapping_query)
#define QUERY_OR_NEXT 0x10u
#define QUERY_OF_FILE 0x20u

struct page_region {
    uint64_t start, end, categories;
};
struct page_scan {
    uint64_t size, flags, start, end, walk_end, regions, regions_count, pages_most;
    uint64_t inverted, all_of, any_of, returned;
};
#define PAGE_SCAN _IOWR('f', 16, struct page_scan)
#define PAGE_FILE (1u << 2)
#define PAGE_PRESENT (1u << 3)
#define PAGE_SWAPPED (1u << 4)

#define ENTRIES 128
#define TABLE_FILE (1ull << 61)
#define TABLE_SWAPPED (1ull << 62)
#define TABLE_PRESENT (1ull << 63)

static bool ask(int maps, struct mapping_query *query)
{
    query->size = sizeof(*query);
    return syscall(SYS_ioctl, maps, MAPPING_QUERY, query) == 0;
}

/* The first pages that the scan is for. 1, 0, or -1 and errno. */
static int scan_pages(int pages, struct page_scan *scan, struct page_region *found)
{
    *found = (struct page_region){0};
    scan->size = sizeof(*scan);
    scan->regions = (uintptr_t)found;
    scan->regions_count = 1;
    return (int)syscall(SYS_ioctl, pages, PAGE_SCAN, scan);
}

static bool by_query(int maps, uintptr_t at, uint32_t flags, struct portus_mapping *mapping)
{
    char name[128] = "";
    struct mapping_query query = {.query_flags = QUERY_OR_NEXT | flags,
                                  .query_addr = at,
                                  .name_size = sizeof(name),
                                  .name = (uintptr_t)name};
    bool known = ask(maps, &query);

    if (!known && errno == ENAMETOOLONG) { /* the path of some file */
        query.name_size = 0;
        query.name = 0;
        known = ask(maps, &query);
    }
    if (!known)
        return false;
    *mapping = (struct portus_mapping){.start = query.start,
                                       .end = query.end,
                                       .flags = (uint32_t)query.flags,
                                       .offset = query.offset,
                                       .device = makedev(query.major, query.minor),
                                       .inode = query.inode};
    memcpy(mapping->name, name, sizeof(mapping->name) - 1);
    return true;
}

/* A line of proc_pid_maps(5), NUL-terminated. */
static bool parse(const char *line, struct portus_mapping *mapping)
{
    char *end;

    mapping->start = strtoul(line, &end, 16);
    if (*end != '-')
        return false;
    mapping->end = strtoul(end + 1, &end, 16);
    if (*end != ' ' || strlen(end) < 6)
        return false;
    mapping->flags =
        (end[1] == 'r' ? PORTUS_MAPPING_READ : 0) | (end[2] == 'w' ? PORTUS_MAPPING_WRITE : 0) |
        (end[3] == 'x' ? PORTUS_MAPPING_EXECUTE : 0) | (end[4] == 's' ? PORTUS_MAPPING_SHARED : 0);
    mapping->offset = strtoul(end + 5, &end, 16);
    mapping->device = strtoul(end, &end, 16) << 32;
    if (*end != ':')
        return false;
    mapping->device =
        makedev((unsigned)(mapping->device >> 32), (unsigned)strtoul(end + 1, &end, 16));
    mapping->inode = strtoul(end, &end, 10);
    end += strspn(end, " ");
    memset(mapping->name, 0, sizeof(mapping->name));
    strncpy(mapping->name, end, sizeof(mapping->name) - 1);
    return true;
}

/*
 * The text is made as it is read, from where the same descriptor was read last. Of a shared one
 * others may have read, and then the kernel counts bytes again, in what is another text by now.
 */
static void open_text(struct portus_walk *walk)
{
    walk->file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (walk->file < 0)
        walk->file = walk->source->maps;
}

static bool wanted(struct portus_walk *walk, struct portus_mapping *mapping)
{
    return !walk->cut && parse(walk->line, mapping) && mapping->end > walk->at;
}

/* Before 6.11. Of a line that is longer than the room for it the beginning is enough. */
static bool by_text(struct portus_walk *walk, struct portus_mapping *mapping)
{
    if (walk->file < 0)
        open_text(walk);
    for (;;) {
        size_t rest;
        char *next;
        long length;
        bool good;

        while ((next = strchr(walk->line, '\n')) != NULL) {
            *next = '\0';
            good = wanted(walk, mapping);
            walk->cut = false;
            walk->line = next + 1;
            if (good)
                return true;
        }
        rest = strlen(walk->line);
        if (rest == sizeof(walk->text) - 1) {
            good = wanted(walk, mapping);
            walk->cut = true;
            walk->line += rest;
            if (good)
                return true;
            rest = 0;
        }
        memmove(walk->text, walk->line, rest);
        walk->line = walk->text;
        length = syscall(SYS_pread64, walk->file, walk->text + rest, sizeof(walk->text) - 1 - rest,
                         walk->offset);
        walk->text[rest + (length > 0 ? (size_t)length : 0)] = '\0';
        if (length <= 0)
            return false;
        walk->offset += length;
    }
}

static bool next(struct portus_walk *walk, uint32_t flags, struct portus_mapping *mapping)
{
    if (walk->source->maps < 0)
        return false;
    if (!by_query(walk->source->maps, walk->at, flags, mapping) &&
        (errno == ENOENT || errno == ESRCH || !by_text(walk, mapping)))
        return false;
    walk->at = mapping->end;
    return true;
}

void portus_walk_begin(struct portus_walk *walk, const struct portus_source *source, uintptr_t at)
{
    walk->source = source;
    walk->at = at;
    walk->file = -1;
    walk->cut = false;
    walk->offset = 0;
    walk->line = walk->text;
    walk->text[0] = '\0';
}

void portus_walk_end(struct portus_walk *walk)
{
    if (walk->file >= 0 && walk->file != walk->source->maps)
        syscall(SYS_close, walk->file);
}

bool portus_walk_next(struct portus_walk *walk, struct portus_mapping *mapping)
{
    return next(walk, QUERY_OF_FILE, mapping);
}

bool portus_mapping_at(const struct portus_source *source, uintptr_t at,
                       struct portus_mapping *mapping)
{
    struct portus_walk walk;
    bool found;

    portus_walk_begin(&walk, source, at);
    found = next(&walk, 0, mapping);
    portus_walk_end(&walk);
    return found;
}

static bool anonymous(int maps, uintptr_t at, uintptr_t end)
{
    struct mapping_query query;

    for (; at < end; at = query.end) {
        query = (struct mapping_query){.query_addr = at};
        if (!ask(maps, &query) || query.inode != 0 || !(query.flags & PORTUS_MAPPING_READ))
            return false;
    }
    return true;
}

/* Mappings of devices are passed over by the scan: so all must be seen, not none missed. */
bool portus_pages_present(const struct portus_source *source, uintptr_t start, uintptr_t end)
{
    struct page_region seen;
    struct page_scan scan = {
        .start = start, .end = end, .all_of = PAGE_PRESENT, .returned = PAGE_PRESENT};

    return source->maps >= 0 && source->pages >= 0 && start < end &&
           anonymous(source->maps, start, end) && scan_pages(source->pages, &scan, &seen) == 1 &&
           seen.start == start && seen.end == end;
}

/* Before 6.7. */
static int own_by_table(int pages, uintptr_t start, uintptr_t end, uintptr_t *from, uintptr_t *to)
{
    uint64_t entry[ENTRIES];
    bool found = false;

    for (uintptr_t at = start; at < end;) {
        size_t count = (end - at) / PAGE < ENTRIES ? (end - at) / PAGE : ENTRIES;
        long got = syscall(SYS_pread64, pages, entry, count * sizeof(*entry),
                           (off_t)(at / PAGE * sizeof(*entry)));

        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        for (size_t i = 0; i < (size_t)got / sizeof(*entry); i++, at += PAGE) {
            bool own = (entry[i] & (TABLE_PRESENT | TABLE_SWAPPED)) && !(entry[i] & TABLE_FILE);
            if (own && !found)
                *from = at;
            if (!own && found) {
                *to = at;
                return 1;
            }
            found |= own;
        }
    }
    *to = end;
    return found;
}

int portus_pages_own(const struct portus_source *source, uintptr_t start, uintptr_t end,
                     uintptr_t *from, uintptr_t *to)
{
    struct page_region region;
    struct page_scan scan = {.start = start,
                             .end = end,
                             .inverted = PAGE_FILE,
                             .all_of = PAGE_FILE,
                             .any_of = PAGE_PRESENT | PAGE_SWAPPED,
                             .returned = PAGE_FILE};
    int found;

    if (source->pages < 0)
        return -ENOENT;
    found = scan_pages(source->pages, &scan, &region);
    if (found < 0)
        return own_by_table(source->pages, start, end, from, to);
    *from = region.start;
    *to = region.end;
    return found;
}
