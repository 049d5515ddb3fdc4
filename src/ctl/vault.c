// SPDX-License-Identifier: BSD-3-Clause
/*
 * vault.c -- the pool that a subcommand is about, and the versions that a path means
 *
 * A pool is read while its portusd writes it: what was removed meanwhile is found by the
 * reading functions. What changes it goes through that portusd.
 */
#include "ctl/vault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/change.h"
#include "store/remote.h"

int vault_open(struct pool **pool, const struct options *options, const char *command)
{
    if (options->store[0] == '\0') {
        complain("%s: which pool? give --store POOL or set PORTUS_STORE", command);
        return CTL_USAGE;
    }
    if (remote_is(options->store))
        return remote_open(pool, options->store) == 0 ? 0 : CTL_FAILED;
    return pool_open(pool, options->store, false) == 0 ? 0 : CTL_FAILED;
}

/* Slashes that say nothing. */
static void squeeze(char *path)
{
    char *to = path;

    for (const char *from = path; *from; from++)
        if (from[0] != '/' || (from[1] != '/' && from[1] != '\0') || from == path)
            *to++ = *from;
    *to = '\0';
    if (to - path > 1 && to[-1] == '/')
        to[-1] = '\0';
    if (path[0] == '/' && path[1] == '/')
        memmove(path, path + 1, strlen(path));
}

/* The path without links, as far as it exists; the rest need not. 0 or a negative errno. */
static int make_absolute(char out[PATH_MAX], const char *path)
{
    char head[PATH_MAX], rest[PATH_MAX] = "";
    char *slash;

    if (path[0] == '\0')
        return -ENOENT;
    if (path[0] == '/') {
        if (snprintf(head, sizeof(head), "%s", path) >= (int)sizeof(head))
            return -ENAMETOOLONG;
    } else {
        size_t length;
        if (getcwd(head, sizeof(head)) == NULL)
            return -errno;
        length = strlen(head);
        if (snprintf(head + length, sizeof(head) - length, "/%s", path) >=
            (int)(sizeof(head) - length))
            return -ENAMETOOLONG;
    }
    squeeze(head);
    while (realpath(head, out) == NULL) {
        char joined[PATH_MAX];
        if (errno != ENOENT && errno != ENOTDIR)
            return -errno;
        slash = strrchr(head, '/');
        if (slash == NULL || strcmp(slash, "/..") == 0 || strcmp(slash, "/.") == 0)
            return -ENOENT;
        if (snprintf(joined, sizeof(joined), "%s%s", slash, rest) >= (int)sizeof(joined))
            return -ENAMETOOLONG;
        strcpy(rest, joined);
        if (slash == head)
            head[1] = '\0';
        else
            *slash = '\0';
        if (strcmp(head, "/") == 0) {
            out[0] = '\0';
            break;
        }
    }
    if (strcmp(out, "/") == 0 && rest[0] != '\0')
        out[0] = '\0';
    if (strlen(out) + strlen(rest) >= PATH_MAX)
        return -ENAMETOOLONG;
    strcat(out, rest);
    return 0;
}

int vault_add(struct vault_list *list, const struct pool_version *version, const char *path)
{
    struct vault_version *entry;

    if ((list->count & (list->count + 1)) == 0) { /* one less than a power of two */
        entry = realloc(list->entry, (2 * list->count + 1) * sizeof(*entry));
        if (entry == NULL)
            return -ENOMEM;
        list->entry = entry;
    }
    entry = &list->entry[list->count];
    entry->version = *version;
    entry->path = strdup(path);
    entry->job = strdup(version->attributes.job);
    if (entry->path == NULL || entry->job == NULL) {
        free(entry->path);
        free(entry->job);
        return -ENOMEM;
    }
    entry->version.attributes.path = entry->path;
    entry->version.attributes.job = entry->job;
    list->count++;
    return 0;
}

struct search {
    struct vault_list *list;
    const char *path; /* NULL: all */
    size_t length;
};

static int note(const struct pool_version *version, void *argument)
{
    struct search *search = argument;
    const char *path = version->attributes.path;

    if (search->path != NULL &&
        (strncmp(path, search->path, search->length) != 0 ||
         (search->length > 1 && path[search->length] != '\0' && path[search->length] != '/')))
        return 0;
    return vault_add(search->list, version, path);
}

int vault_find(struct vault_list *list, const struct pool *pool, const char *path,
               char absolute[PATH_MAX], const char *command)
{
    struct search search = {.list = list};
    int error = 0;

    memset(list, 0, sizeof(*list));
    if (path != NULL) {
        error = make_absolute(absolute, path);
        search.path = absolute;
        search.length = error == 0 ? strlen(absolute) : 0;
    }
    if (error == 0)
        error = pool_each(pool, note, &search);
    if (error != 0) {
        complain("%s: %s: %s", command, path != NULL ? path : "the pool", strerror(-error));
        vault_free(list);
        return CTL_FAILED;
    }
    return 0;
}

static void drop(struct vault_version *entry)
{
    free(entry->path);
    free(entry->job);
    entry->path = NULL;
}

void vault_free(struct vault_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        drop(&list->entry[i]);
    free(list->entry);
    memset(list, 0, sizeof(*list));
}

static int by_path(const void *a, const void *b)
{
    const struct vault_version *one = a, *two = b;
    int order = strcmp(one->path, two->path);

    if (order != 0)
        return order;
    return one->version.number < two->version.number ? -1 : 1;
}

static size_t directory(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path);
}

static bool same_directory(const char *one, const char *two)
{
    size_t length = directory(one);

    return length == directory(two) && memcmp(one, two, length) == 0;
}

/* The commit up to which a directory's files count; 0: none. */
static uint64_t settled_at(const struct vault_list *list, const char *path, uint64_t number)
{
    uint64_t newest = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct pool_version *version = &list->entry[i].version;
        if (version->attributes.settled && version->number <= number && version->number > newest &&
            same_directory(list->entry[i].path, path))
            newest = version->number;
    }
    return newest;
}

int vault_newest(struct vault_list *list, uint64_t number, bool settled, char unsettled[PATH_MAX])
{
    uint64_t *limit = calloc(list->count + 1, sizeof(*limit));
    const char *last = NULL;
    size_t count = 0;

    if (limit == NULL)
        return -ENOMEM;
    if (number == 0)
        number = UINT64_MAX;
    unsettled[0] = '\0';
    if (list->count > 0)
        qsort(list->entry, list->count, sizeof(*list->entry), by_path);
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->entry[i].path;
        if (i > 0 && same_directory(list->entry[i - 1].path, path))
            limit[i] = limit[i - 1];
        else
            limit[i] = settled ? settled_at(list, path, number) : number;
        if (limit[i] == 0)
            snprintf(unsettled, PATH_MAX, "%s", path);
    }
    /* From the end, so that the path that follows is still there to be compared. */
    for (size_t i = list->count; i-- > 0;) {
        struct vault_version *entry = &list->entry[i];
        bool newer = last != NULL && strcmp(last, entry->path) == 0;
        if (entry->version.number > limit[i] || newer) {
            drop(entry);
            continue;
        }
        last = entry->path;
    }
    for (size_t i = 0; i < list->count; i++)
        if (list->entry[i].path != NULL)
            list->entry[count++] = list->entry[i];
    list->count = count;
    free(limit);
    return 0;
}

/* Does it here: no portusd has the pool. */
static int change(const struct options *options, unsigned op, uint64_t number, unsigned flags,
                  uint64_t *answer)
{
    struct pool *pool;
    int error = pool_open(&pool, options->store, true);

    if (error != 0)
        return error;
    error = pool_change(pool, &(struct pool_share){.everyone = true}, op, number, flags,
                        (unsigned)options->env->keep, answer);
    pool_close(pool);
    return error;
}

int vault_change(const struct options *options, unsigned op, uint64_t number, unsigned flags,
                 uint64_t *answer)
{
    int fd = remote_connect(options->store), error;

    if (fd == -ECONNREFUSED && !remote_is(options->store))
        return change(options, op, number, flags, answer);
    if (fd < 0)
        return fd;
    error = remote_ask(fd, op, number, flags, answer);
    close(fd);
    return error;
}
