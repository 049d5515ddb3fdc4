/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * follow.c -- a file or a directory has another name
 *
 * Told by a description of what was renamed. Where that is now the kernel says; which
 * objects are there, their own keys do: no name that somebody says is believed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "store/state.h"

#define DEPTH 8
#define FILES 65536 /* of a directory that is looked through: a step's shards, not a home */

/* A file that the pool has under another path. */
struct object {
    struct pool_key key;
    char *path;
    uint64_t number; /* of its newest version */
    bool settled;    /* that one */
};

struct objects {
    struct object *object;
    size_t count;
    bool part; /* some could not be looked at */
};

/* A file with several links has not moved from where it still is. */
static bool is_at(int fd, const char *path)
{
    struct stat status, there;

    return lstat(path, &there) == 0 && fstat(fd, &status) == 0 && status.st_dev == there.st_dev &&
           status.st_ino == there.st_ino;
}

/* Adds the file behind fd if the pool knows it by another path. */
static void note(const struct store *store, struct objects *list, int fd)
{
    static char path[PATH_MAX + 1];
    struct object object = {0}, *more;
    struct pool_version version;
    int error;

    error = store_key(fd, &object.key);
    if (error == 0)
        error = store_path(store, fd, path, sizeof(path));
    if (error != 0) {
        list->part |= error != -ENOENT;
        return;
    }
    object.key.owner = store->self;
    if (pool_newest(store->pool, &object.key, &version) != 0 ||
        strcmp(version.attributes.path, path) == 0 || is_at(fd, version.attributes.path))
        return;
    more = realloc(list->object, (list->count + 1) * sizeof(*more));
    if (more == NULL) {
        list->part = true;
        return;
    }
    list->object = more;
    object.path = strdup(path);
    object.number = version.number;
    object.settled = version.attributes.settled;
    if (object.path != NULL)
        list->object[list->count++] = object;
    else
        list->part = true;
}

/* Files that have moved together are a whole set where they were one, if all have. */
static void rename_all(struct store *store, struct objects *list)
{
    enum pool_settling last = POOL_SETTLED_AS_IT_WAS;
    uint64_t newest = 0, number;

    for (size_t i = 0; i < list->count && list->count > 1; i++)
        if (list->object[i].number > newest) {
            newest = list->object[i].number;
            last = list->object[i].settled ? POOL_SETTLED : POOL_UNSETTLED;
        }
    for (size_t i = 0; i < list->count; i++) {
        if (pool_rename(store->pool, &list->object[i].key, list->object[i].path,
                        i + 1 == list->count && !list->part ? last : POOL_UNSETTLED, &number) != 0)
            list->part = true;
        free(list->object[i].path);
    }
    if (list->part && list->count > 0)
        log_warn("a directory was renamed, and not all in it could be followed: some versions in "
                 "the pool keep their old paths");
    free(list->object);
}

static void follow_in(struct store *store, struct objects *list, int fd, unsigned depth,
                      unsigned *files)
{
    struct objects inside = {0};
    struct stat status;
    DIR *directory;
    int again;

    if (fstat(fd, &status) < 0)
        return;
    if (S_ISREG(status.st_mode)) {
        note(store, list, fd);
        return;
    }
    if (!S_ISDIR(status.st_mode) || depth == DEPTH)
        return;
    again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    directory = again >= 0 ? fdopendir(again) : NULL;
    if (directory == NULL) {
        log_warn("a directory was renamed, and cannot be opened: %s: the pool keeps its files' old "
                 "paths",
                 strerror(errno));
        if (again >= 0)
            close(again);
        return;
    }
    while (*files < FILES) {
        struct dirent *entry = (errno = 0, readdir(directory));
        int child;

        if (entry == NULL) {
            inside.part |= errno != 0;
            break;
        }
        (*files)++;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        child = openat(fd, entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (child < 0) {
            inside.part |= errno != ENOENT;
            continue;
        }
        follow_in(store, &inside, child, depth + 1, files);
        close(child);
    }
    closedir(directory);
    rename_all(store, &inside);
}

void store_follow(struct store *store, int fd)
{
    struct objects alone = {0};
    unsigned files = 0;

    follow_in(store, &alone, fd, 0, &files);
    rename_all(store, &alone);
    if (files >= FILES)
        log_warn("a directory with more than %d files was renamed: some versions in the pool "
                 "keep their old paths",
                 FILES);
}
