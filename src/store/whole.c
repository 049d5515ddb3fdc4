/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * whole.c -- whether a directory's files are all in the pool as they are
 *
 * Asked at a commit with which the agent sees none of them being written. A file may
 * have been changed since its newest version: its copy was given up as somebody wanted to
 * write, or there was no room, or the program wrote it as usual. Then a restore would
 * mix two steps. So each is looked at; one that is not there any more does no harm. Where
 * the store has no right to look its agent has, when it handed the file over (listing).
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/futex.h"
#include "common/listing.h"
#include "store/state.h"

/* A file on the disk, as it was listed. */
struct file {
    const char *path;
    uint64_t size;
    int64_t mtime;
};

struct disk {
    struct file *file; /* sorted by path */
    size_t count, room;
    bool failed;
};

struct newest {
    uint64_t number, size;
    int64_t mtime;
    char path[];
};

struct list {
    const char *path; /* that is just being committed */
    void *tree;       /* of struct newest: several jobs may have versions of a path */
};

static int by_path(const void *one, const void *other)
{
    return strcmp(((const struct newest *)one)->path, ((const struct newest *)other)->path);
}

static int note(const struct pool_version *version, void *argument)
{
    struct list *list = argument;
    size_t bytes = strlen(version->attributes.path) + 1;
    struct newest *entry, **found;

    if (strcmp(version->attributes.path, list->path) == 0)
        return 0;
    entry = calloc(1, sizeof(*entry) + bytes);
    if (entry == NULL)
        return 1;
    memcpy(entry->path, version->attributes.path, bytes);
    found = tsearch(entry, &list->tree, by_path);
    if (found == NULL || *found != entry)
        free(entry);
    if (found == NULL)
        return 1;
    entry = *found;
    if (version->number > entry->number) {
        entry->number = version->number;
        entry->size = version->attributes.size;
        entry->mtime = version->attributes.mtime;
    }
    return 0;
}

static int put(struct disk *disk, const struct file *file)
{
    if (disk->count == disk->room) {
        size_t room = 2 * disk->room + 16;
        struct file *more = realloc(disk->file, room * sizeof(*more));
        if (more == NULL) {
            disk->failed = true;
            return 1;
        }
        disk->file = more;
        disk->room = room;
    }
    disk->file[disk->count++] = *file;
    return 0;
}

static int of_path(const void *one, const void *other)
{
    return strcmp(((const struct file *)one)->path, ((const struct file *)other)->path);
}

static void read_listing(struct disk *disk, const struct listing *listing)
{
    const struct listing_entry *entry;
    const char *path;
    size_t at = 0;

    for (unsigned i = 0; i < LISTING_FILES && (entry = listing_next(listing, &at, &path)) != NULL;
         i++)
        put(disk, &(struct file){path, entry->size, entry->mtime});
    disk->failed |= at != listing->length;
    if (disk->count > 0)
        qsort(disk->file, disk->count, sizeof(*disk->file), of_path);
}

/* Whether it is not there, or as it is in the pool. disk: NULL: may be looked at. */
static bool is_as_kept(const struct disk *disk, const struct newest *entry)
{
    struct file *there, wanted = {.path = entry->path};
    struct stat status;

    if (disk == NULL)
        return lstat(entry->path, &status) != 0
                   ? errno == ENOENT || errno == ENOTDIR
                   : (uint64_t)status.st_size == entry->size &&
                         portus_nanoseconds(&status.st_mtim) == entry->mtime;
    there = disk->count == 0
                ? NULL
                : bsearch(&wanted, disk->file, disk->count, sizeof(*disk->file), of_path);
    return there == NULL || (there->size == entry->size && there->mtime == entry->mtime);
}

bool store_whole(const struct store *store, const struct pool_share *share, const char *path,
                 int listed)
{
    struct list list = {.path = path};
    struct listing listing = {0};
    struct disk disk = {0};
    bool whole;

    if (store->shared) {
        if (listed < 0 || listing_load(&listing, listed) != 0)
            return false;
        read_listing(&disk, &listing);
    }
    whole = pool_each_in(store->pool, share, path, POOL_NEWEST, note, &list) == 0 && !disk.failed;
    while (list.tree != NULL) {
        struct newest *entry = *(struct newest **)list.tree;

        whole = whole && is_as_kept(store->shared ? &disk : NULL, entry);
        tdelete(entry, &list.tree, by_path);
        free(entry);
    }
    free(disk.file);
    listing_free(&listing);
    return whole;
}
