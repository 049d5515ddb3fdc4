/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evict.c -- makes room for a file
 *
 * First go the versions that newer ones have superseded (pool_make_room). Programs that
 * keep the last few checkpoints give each another name, so nothing supersedes them: then
 * go the oldest whose file is not there any more, then the oldest of all, as they stand in
 * their own files. Never one that is pinned, nor one of the set that the file belongs to:
 * a set with holes is none.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "store/state.h"

struct search {
    const char *path, *job; /* of the file that wants room */
    bool gone;              /* only versions whose file is not there any more */
    uint64_t settled;       /* the last commit with which the file's directory was whole */
    struct pool_version found;
};

static size_t directory(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path);
}

static bool beside(const struct search *search, const struct pool_version *version)
{
    size_t length = directory(search->path);

    return length == directory(version->attributes.path) &&
           memcmp(search->path, version->attributes.path, length) == 0 &&
           strcmp(search->job, version->attributes.job) == 0;
}

static int note_settled(const struct pool_version *version, void *argument)
{
    struct search *search = argument;

    if (version->attributes.settled && beside(search, version))
        search->settled = version->number;
    return 0;
}

static int find(const struct pool_version *version, void *argument)
{
    struct search *search = argument;
    struct stat status;

    if (version->pinned || (version->number > search->settled && beside(search, version)))
        return 0;
    if (search->gone && lstat(version->attributes.path, &status) == 0)
        return 0;
    search->found = *version;
    return 1;
}

static bool has_room(const struct store *store, uint64_t bytes)
{
    struct pool_state state;

    pool_look(store->pool, &state);
    return state.free >= bytes && state.slots_free >= 2;
}

int store_room(struct store *store, const char *path, const char *job, uint64_t bytes)
{
    struct search search = {.path = path, .job = job};
    struct pool_state state;
    int64_t room;

    if (has_room(store, bytes))
        return 0;
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
            int error = pool_remove(store->pool, &search.found);
            if (error != 0)
                return error;
        }
    }
    return has_room(store, bytes) ? 0 : -ENOSPC;
}
