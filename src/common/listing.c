/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing.c -- files and what is known of them, from an agent to a store that may not look
 *
 * What each of them is: handle.c.
 */
#include "common/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"

#define DEPTH 8
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* ---- making ---- */

struct maker {
    struct listing list;
    size_t room;
    unsigned files, entries;
};

static int add(struct maker *maker, struct listing_entry *entry, const struct stat *status,
               const char *path)
{
    size_t path_bytes = strlen(path) + 1;
    size_t bytes = sizeof(*entry) + ((path_bytes + 7) & ~(size_t)7);

    if (path_bytes > PATH_MAX || maker->list.length + bytes > LISTING_MOST)
        return -E2BIG;
    if (maker->list.length + bytes > maker->room) {
        size_t room = 2 * maker->room + 65536;
        char *more = realloc(maker->list.bytes, room);
        if (more == NULL)
            return -ENOMEM;
        maker->list.bytes = more;
        maker->room = room;
    }
    entry->size = (uint64_t)status->st_size;
    entry->mtime = portus_nanoseconds(&status->st_mtim);
    entry->path_bytes = (uint32_t)path_bytes;
    memset(maker->list.bytes + maker->list.length, 0, bytes);
    memcpy(maker->list.bytes + maker->list.length, entry, sizeof(*entry));
    memcpy(maker->list.bytes + maker->list.length + sizeof(*entry), path, path_bytes);
    maker->list.length += bytes;
    return 0;
}

int listing_make(const void *bytes, size_t length)
{
    int fd = memfd_create("portus-listing", MFD_CLOEXEC | MFD_ALLOW_SEALING), error = 0;

    if (fd < 0)
        return -errno;
    for (size_t at = 0; error == 0 && at < length;) {
        ssize_t written = write(fd, (const char *)bytes + at, length - at);
        if (written < 0)
            error = -errno;
        else
            at += (size_t)written;
    }
    if (error == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        error = -errno;
    if (error != 0)
        close(fd);
    return error != 0 ? error : fd;
}

/* A memfd of what was listed; or error, passed on. */
static int finish(struct maker *maker, int error)
{
    int fd = error == 0 ? listing_make(maker->list.bytes, maker->list.length) : error;

    listing_free(&maker->list);
    return fd;
}

static int list_directory(struct maker *maker, DIR *directory, const char *path)
{
    char child[PATH_MAX + NAME_MAX + 2];
    struct dirent *entry;
    int error = 0;

    /* One that is left out would count as deleted. */
    while (error == 0 && (errno = 0, entry = readdir(directory)) != NULL) {
        struct listing_entry listed = {0};
        struct stat status;

        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
            error = errno == ENOENT ? 0 : -errno;
            continue;
        }
        if (!S_ISREG(status.st_mode))
            continue;
        if (++maker->files > LISTING_FILES)
            return -E2BIG;
        snprintf(child, sizeof(child), "%s/%s", strcmp(path, "/") == 0 ? "" : path, entry->d_name);
        error = add(maker, &listed, &status, child);
    }
    return error == 0 && entry == NULL ? -errno : error;
}

int listing_beside(int fd)
{
    char path[PATH_MAX + 1];
    struct maker maker = {0};
    int directory = listing_parent(fd, path), error;
    DIR *stream;

    if (directory < 0)
        return directory;
    stream = fdopendir(directory);
    if (stream == NULL) {
        close(directory);
        return -ENOMEM;
    }
    error = list_directory(&maker, stream, path);
    closedir(stream);
    return finish(&maker, error);
}

static int list_below(struct maker *maker, int fd, unsigned depth)
{
    char path[PATH_MAX + 1];
    struct listing_entry entry;
    struct stat status;
    DIR *directory;
    int error = 0, again;

    if (fstat(fd, &status) < 0)
        return -errno;
    /* One of several names has not moved from the others. */
    if (S_ISREG(status.st_mode) && status.st_nlink == 1 &&
        listing_path(fd, path, sizeof(path)) == 0 && listing_handle(fd, &entry) == 0)
        return add(maker, &entry, &status, path);
    if (!S_ISDIR(status.st_mode) || depth == DEPTH)
        return 0;
    again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    directory = again >= 0 ? fdopendir(again) : NULL;
    if (directory == NULL) {
        error = -errno;
        if (again >= 0)
            close(again);
        return error;
    }
    while (error == 0) {
        struct dirent *name = (errno = 0, readdir(directory));
        int child;

        if (name == NULL) {
            error = -errno;
            break;
        }

        if (strcmp(name->d_name, ".") == 0 || strcmp(name->d_name, "..") == 0)
            continue;
        if (++maker->files > LISTING_FILES) {
            error = -E2BIG;
            break;
        }
        child = openat(again, name->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (child < 0) {
            error = errno == ENOENT ? 0 : -errno;
            continue;
        }
        error = list_below(maker, child, depth + 1);
        close(child);
    }
    closedir(directory);
    return error;
}

int listing_below(int fd)
{
    struct maker maker = {0};
    int error = list_below(&maker, fd, 0);

    return finish(&maker, error);
}

/* ---- reading ---- */

bool listing_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS;
}

int listing_load(struct listing *listing, int fd)
{
    struct stat status;
    char *bytes;

    if (!listing_sealed(fd) || fstat(fd, &status) < 0 || status.st_size > LISTING_MOST)
        return -EPROTO;
    bytes = malloc((size_t)status.st_size + 8);
    if (bytes == NULL)
        return -ENOMEM;
    for (off_t at = 0; at < status.st_size;) {
        ssize_t length = pread(fd, bytes + at, (size_t)(status.st_size - at), at);
        if (length <= 0) {
            free(bytes);
            return length < 0 ? -errno : -EPROTO;
        }
        at += length;
    }
    *listing = (struct listing){bytes, (size_t)status.st_size};
    return 0;
}

void listing_free(struct listing *listing)
{
    free(listing->bytes);
    *listing = (struct listing){0};
}

const struct listing_entry *listing_next(const struct listing *listing, size_t *at,
                                         const char **path)
{
    const struct listing_entry *entry = (const void *)(listing->bytes + *at);
    size_t left = listing->length - *at, bytes;

    if (left < sizeof(*entry) || entry->path_bytes < 2 || entry->path_bytes > PATH_MAX ||
        entry->handle_bytes > LISTING_HANDLE)
        return NULL;
    bytes = sizeof(*entry) + ((entry->path_bytes + 7) & ~(size_t)7);
    *path = (const char *)(entry + 1);
    if (left < bytes || (*path)[0] != '/' ||
        memchr(*path, 0, entry->path_bytes) != *path + entry->path_bytes - 1)
        return NULL;
    *at += bytes;
    return entry;
}
