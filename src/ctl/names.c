// SPDX-License-Identifier: BSD-3-Clause
/*
 * names.c -- files that have another name than the pool knows
 *
 * A rename is told to portusd right after it was made; a power cut in between leaves the
 * pool with the name of before. Then the file itself tells: a version knows the handle of the
 * file that it was made of, and that moves along. Not what has several names: it has not moved
 * from the others.
 */
#include "ctl/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/host.h"
#include "store/state.h"

#define DEPTH 16
#define FILES 65536

struct name {
    struct pool_key key;
    char *path;
};

struct names {
    struct name *entry;
    size_t count;
    bool far, below;
};

/* The key of the file of that name, and its status. 0 or a negative errno. */
static int key_at(int directory, const char *name, bool far, struct pool_key *key,
                  struct stat *status)
{
    uint8_t machine[16];
    int fd = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), error;

    if (fd < 0)
        return -errno;
    error = fstat(fd, status) < 0 ? -errno : 0;
    if (error == 0 && S_ISREG(status->st_mode))
        error = store_key(fd, key);
    if (error == 0 && far) {
        host_id(machine);
        host_mix(key->file_system, machine);
    }
    close(fd);
    return error;
}

bool names_is_of(const struct pool_version *version, const char *path, bool far)
{
    struct pool_key key;
    struct stat status;

    return key_at(AT_FDCWD, path, far, &key, &status) == 0 && S_ISREG(status.st_mode) &&
           store_same_file(&key, &version->key);
}

/* ---- what there is ---- */

static int note(struct names *names, const struct pool_key *key, const char *path)
{
    struct name *entry;

    if (names->count == FILES)
        return -E2BIG;
    if ((names->count & (names->count + 1)) == 0) { /* one less than a power of two */
        entry = realloc(names->entry, (2 * names->count + 1) * sizeof(*entry));
        if (entry == NULL)
            return -ENOMEM;
        names->entry = entry;
    }
    entry = &names->entry[names->count];
    entry->key = *key;
    entry->path = strdup(path);
    if (entry->path == NULL)
        return -ENOMEM;
    names->count++;
    return 0;
}

static int look(struct names *names, int at, const char *name, char path[PATH_MAX], unsigned depth);

/* What cannot be looked at is as if it were not there. */
static int look_in(struct names *names, int at, const char *name, char path[PATH_MAX],
                   unsigned depth)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), error = 0;
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    size_t length = strlen(path);
    struct dirent *entry;

    if (directory == NULL) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (error == 0 && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(path + length, PATH_MAX - length, "%s%s",
                     length > 0 && path[length - 1] == '/' ? "" : "/",
                     entry->d_name) >= (int)(PATH_MAX - length))
            continue;
        error = look(names, fd, entry->d_name, path, depth + 1);
    }
    path[length] = '\0';
    closedir(directory);
    return error;
}

static int look(struct names *names, int at, const char *name, char path[PATH_MAX], unsigned depth)
{
    struct pool_key key;
    struct stat status;

    if (key_at(at, name, names->far, &key, &status) != 0)
        return 0;
    if (S_ISREG(status.st_mode) && status.st_nlink == 1)
        return note(names, &key, path);
    if (S_ISDIR(status.st_mode) && depth < DEPTH && (depth == 0 || names->below))
        return look_in(names, at, name, path, depth);
    return 0;
}

/* ---- what the pool knows of it ---- */

static int by_key(const void *one, const void *other)
{
    const struct pool_key *a = one, *b = other;
    int order = memcmp(a->file_system, b->file_system, sizeof(a->file_system));

    if (order != 0)
        return order;
    if (a->handle_type != b->handle_type)
        return a->handle_type < b->handle_type ? -1 : 1;
    if (a->handle_bytes != b->handle_bytes)
        return a->handle_bytes < b->handle_bytes ? -1 : 1;
    return memcmp(a->handle, b->handle, a->handle_bytes);
}

struct search {
    struct vault_list *list;
    const struct names *names;
};

static int match(const struct pool_version *version, void *argument)
{
    const struct search *search = argument;
    const struct name *name =
        bsearch(&version->key, search->names->entry, search->names->count, sizeof(*name), by_key);

    if (name == NULL || strcmp(name->path, version->attributes.path) == 0)
        return 0;
    return vault_add(search->list, version, name->path);
}

int names_add(struct vault_list *list, const struct pool *pool, const char *path, bool below,
              bool far)
{
    struct names names = {.far = far, .below = below};
    struct search search = {list, &names};
    char at[PATH_MAX];
    int error, found = 0;

    if (snprintf(at, sizeof(at), "%s", path) >= (int)sizeof(at))
        return -ENAMETOOLONG;
    error = look(&names, AT_FDCWD, path, at, 0);
    if ((error == 0 || error == -E2BIG) && names.count > 0) {
        qsort(names.entry, names.count, sizeof(*names.entry), by_key);
        found = pool_each(pool, match, &search);
    }
    for (size_t i = 0; i < names.count; i++)
        free(names.entry[i].path);
    free(names.entry);
    return found != 0 ? found : error;
}
