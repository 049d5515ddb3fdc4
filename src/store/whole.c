/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * whole.c -- whether a directory's files are all in the pool as they are
 *
 * Asked at a commit with which the agent sees none of them being written. A file may
 * have been changed since its newest version: its copy was given up as somebody wanted to
 * write, or there was no room, or the program wrote it as usual. Then a restore would
 * mix two steps. So each is looked at; one that is not there any more does no harm.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/state.h"

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

static bool is_as_kept(const struct newest *entry)
{
    struct stat status;

    return lstat(entry->path, &status) != 0 || ((uint64_t)status.st_size == entry->size &&
                                                store_nanoseconds(&status.st_mtim) == entry->mtime);
}

bool store_whole(const struct store *store, const char *path)
{
    struct list list = {.path = path};
    bool whole = pool_each_in(store->pool, path, POOL_NEWEST, note, &list) == 0;

    while (list.tree != NULL) {
        struct newest *entry = *(struct newest **)list.tree;

        whole = whole && is_as_kept(entry);
        tdelete(entry, &list.tree, by_path);
        free(entry);
    }
    return whole;
}
