/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evict.c -- makes room for a file
 *
 * First go the versions that newer ones have superseded (pool_make_room). Programs that
 * keep the last few checkpoints give each another name, so nothing supersedes them: then
 * go the oldest whose file is not there any more, then the oldest of all, as they stand in
 * their own files: of another directory all versions, for a set with holes is none. Never one
 * that is pinned, nor of the file's own directory one of the last set that was whole, nor
 * what has come since.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store/state.h"

#define OVERHEAD 65536

struct search {
    const char *path, *job; /* of the file that wants room */
    bool gone;              /* only versions whose file is not there any more */
    uint64_t settled;       /* the last commit with which the file's directory was whole */
    uint64_t before;        /* and the last but one */
    struct pool_version found;
    char found_path[PATH_MAX + 1], found_job[256];
};

static size_t directory(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path);
}

static bool beside(const char *path, const char *job, const struct pool_version *version)
{
    size_t length = directory(path);

    return length == directory(version->attributes.path) &&
           memcmp(path, version->attributes.path, length) == 0 &&
           strcmp(job, version->attributes.job) == 0;
}

static int note_settled(const struct pool_version *version, void *argument)
{
    struct search *search = argument;

    if (version->attributes.settled && beside(search->path, search->job, version)) {
        search->before = search->settled;
        search->settled = version->number;
    }
    return 0;
}

static int find(const struct pool_version *version, void *argument)
{
    struct search *search = argument;
    struct stat status;

    if (version->pinned ||
        (version->number > search->before && beside(search->path, search->job, version)))
        return 0;
    /* What cannot be seen now is not gone. */
    if (search->gone &&
        (lstat(version->attributes.path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR)))
        return 0;
    search->found = *version;
    snprintf(search->found_path, sizeof(search->found_path), "%s", version->attributes.path);
    snprintf(search->found_job, sizeof(search->found_job), "%s", version->attributes.job);
    return 1;
}

/* Another one of the directory of what was found. */
static int find_beside(const struct pool_version *version, void *argument)
{
    struct search *search = argument;

    if (version->pinned || !beside(search->found_path, search->found_job, version))
        return 0;
    search->found = *version;
    return 1;
}

static int remove_found(struct store *store, struct search *search)
{
    bool own = beside(search->path, search->job, &search->found);
    int error = pool_remove(store->pool, &search->found);

    while (error == 0 && !own && !search->gone && pool_each(store->pool, find_beside, search) == 1)
        error = pool_remove(store->pool, &search->found);
    return error;
}

static bool has_room(const struct store *store, uint64_t bytes)
{
    struct pool_state state;

    pool_look(store->pool, &state);
    return state.free >= bytes && state.slots_free >= 2;
}

int store_room(struct store *store, const char *path, const char *job, uint64_t bytes)
{
    static struct search search;
    struct pool_state state;
    int64_t room;

    bytes += bytes / 1024 + OVERHEAD; /* the list of its extents */
    if (has_room(store, bytes))
        return 0;
    memset(&search, 0, sizeof(search));
    search.path = path;
    search.job = job;
    pool_look(store->pool, &state);
    if (bytes >= state.size)
        return -ENOSPC; /* nothing goes in vain */
    room = pool_make_room(store->pool, bytes, store->keep);
    if (room < 0)
        return (int)room;
    pool_each(store->pool, note_settled, &search);
    for (int pass = 0; pass < 2; pass++) {
        search.gone = pass == 0;
        while (!has_room(store, bytes) && pool_each(store->pool, find, &search) == 1) {
            int error = remove_found(store, &search);
            if (error != 0)
                return error;
        }
    }
    return has_room(store, bytes) ? 0 : -ENOSPC;
}
