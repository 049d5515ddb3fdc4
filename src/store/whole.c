/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * whole.c -- whether a directory's files are all in the pool as they are
 *
 * Asked at a commit with which the agent sees none of them being written. A file may
 * have been changed since its newest version: its copy was given up as somebody wanted to
 * write, or there was no room, or the program wrote it as usual. Then a restore would
 * mix two steps. So each is looked at; one that is not there any more does no harm.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/state.h"

struct newest {
    char *path;
    uint64_t size;
    int64_t mtime;
};

struct list {
    const char *path; /* that is just being committed */
    size_t directory; /* length of that */
    struct newest *entry;
    size_t count;
    bool failed;
};

static int note(const struct pool_version *version, void *argument)
{
    struct list *list = argument;
    const char *path = version->attributes.path;
    struct newest *entry = NULL;

    if (strncmp(path, list->path, list->directory + 1) != 0 ||
        strchr(path + list->directory + 1, '/') != NULL || strcmp(path, list->path) == 0)
        return 0;
    for (size_t i = 0; i < list->count && entry == NULL; i++)
        if (strcmp(list->entry[i].path, path) == 0)
            entry = &list->entry[i];
    if (entry == NULL) {
        struct newest *more = realloc(list->entry, (list->count + 1) * sizeof(*more));
        if (more == NULL) {
            list->failed = true;
            return 1;
        }
        list->entry = more;
        entry = &more[list->count];
        entry->path = strdup(path);
        if (entry->path == NULL) {
            list->failed = true;
            return 1;
        }
        list->count++;
    }
    entry->size = version->attributes.size;
    entry->mtime = version->attributes.mtime;
    return 0;
}

bool store_whole(const struct store *store, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct list list = {.path = path, .directory = slash != NULL ? (size_t)(slash - path) : 0};
    struct stat status;
    bool whole;

    pool_each(store->pool, note, &list);
    whole = !list.failed;
    for (size_t i = 0; i < list.count; i++) {
        const struct newest *entry = &list.entry[i];
        if (whole && lstat(entry->path, &status) == 0)
            whole = (uint64_t)status.st_size == entry->size &&
                    store_nanoseconds(&status.st_mtim) == entry->mtime;
        free(entry->path);
    }
    free(list.entry);
    return whole;
}
