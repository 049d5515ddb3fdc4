/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evict.c -- makes room for a file
 *
 * First go the versions that newer ones have superseded (pool_make_room). Programs that
 * keep the last few checkpoints give each another name, so nothing supersedes them: then
 * go the oldest whose file is not there any more (of so many as can be looked at in a moment,
 * others the next time), then the oldest of all, as they stand in
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

#define LOOKS 4096 /* files */

struct search {
    const struct pool_share *share; /* whose versions may go */
    const char *path, *job;         /* of the file that wants room */
    bool gone;                      /* only versions whose file is not there any more */
    unsigned looks;                 /* that are left, to see which are */
    uint64_t looked;                /* version that was looked at last */
    uint64_t settled;               /* the last commit with which the file's directory was whole */
    uint64_t before;                /* and the last but one */
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

/* Newest first. */
static int note_settled(const struct pool_version *version, void *argument)
{
    struct search *search = argument;

    if (!beside(search->path, search->job, version))
        return 0;
    if (search->settled == 0) {
        search->settled = version->number;
        return 0;
    }
    search->before = version->number;
    return 1;
}

static int find(const struct pool_version *version, void *argument)
{
    struct search *search = argument;
    struct stat status;

    if (version->pinned ||
        (version->number > search->before && beside(search->path, search->job, version)))
        return 0;
    if (search->gone) {
        if (search->looks == 0)
            return -EAGAIN;
        search->looks--;
        search->looked = version->number;
        /* What cannot be seen now is not gone. */
        if (lstat(version->attributes.path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR))
            return 0;
    }
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

    while (error == 0 && !own && !search->gone &&
           pool_each_in(store->pool, search->share, search->found_path, POOL_ALL, find_beside,
                        search) == 1)
        error = pool_remove(store->pool, &search->found);
    return error;
}

static bool has_room(const struct store *store, const struct pool_share *share, uint64_t bytes)
{
    struct pool_usage usage;

    pool_use(store->pool, share, &usage);
    return usage.left >= bytes;
}

/* From where the last one went on, and once around. */
static bool find_gone(struct store *store, struct search *search)
{
    for (int round = 0; round < 2; round++) {
        int result = pool_each_after(store->pool, search->looked, find, search);

        if (result != 0)
            return result == 1;
        search->looked = 0;
    }
    return false;
}

int store_room(struct store *store, const struct pool_share *share, const char *path,
               const char *job, uint64_t bytes)
{
    static struct search search;
    static uint64_t looked;
    struct pool_state state;
    int64_t room;
    int error = 0;

    bytes = pool_needs(bytes);
    if (has_room(store, share, bytes))
        return 0;
    memset(&search, 0, sizeof(search));
    search.share = share;
    search.path = path;
    search.job = job;
    pool_look(store->pool, &state);
    if (bytes >= state.size || (!share->everyone && bytes > share->bytes))
        return -ENOSPC; /* nothing goes in vain */
    room = pool_make_room_of(store->pool, share, bytes, store->keep);
    if (room < 0)
        return (int)room;
    pool_each_in(store->pool, share, path, POOL_WITH_SETTLED, note_settled, &search);
    /* A store of several users has no right to look where their files are. */
    search.gone = !store->shared;
    search.looks = LOOKS;
    search.looked = state.slots - state.slots_free > LOOKS ? looked : 0;
    while (search.gone && error == 0 && !has_room(store, share, bytes) && find_gone(store, &search))
        error = remove_found(store, &search);
    looked = search.looked;
    search.gone = false;
    while (error == 0 && !has_room(store, share, bytes) &&
           pool_each_of(store->pool, share, find, &search) == 1)
        error = remove_found(store, &search);
    if (error != 0)
        return error;
    return has_room(store, share, bytes) ? 0 : -ENOSPC;
}
