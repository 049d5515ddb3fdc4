/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * key.c -- what a file is, and where: by its descriptor, and no name that somebody says
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/listing.h"
#include "store/state.h"

int store_key(int fd, struct pool_key *key)
{
    struct listing_entry entry;
    int error = listing_handle(fd, &entry);

    if (error == 0)
        *key = store_key_of(&entry, 0);
    return error;
}

bool store_same_file(const struct pool_key *one, const struct pool_key *other)
{
    return one->handle_type == other->handle_type && one->handle_bytes == other->handle_bytes &&
           memcmp(one->file_system, other->file_system, sizeof(one->file_system)) == 0 &&
           memcmp(one->handle, other->handle, one->handle_bytes) == 0;
}

struct pool_key store_key_of(const struct listing_entry *entry, uint32_t owner)
{
    struct pool_key key = {
        .owner = owner,
        .handle_type = entry->handle_type,
        .handle_bytes = entry->handle_bytes,
    };

    memcpy(key.file_system, entry->file_system, sizeof(key.file_system));
    memcpy(key.handle, entry->handle, entry->handle_bytes);
    return key;
}

int store_path(const struct store *store, int fd, char *path, size_t size)
{
    static const char deleted[] = " (deleted)";
    struct stat status, there;
    size_t length;
    int error = listing_path(fd, path, size);

    if (error != 0)
        return error;
    /* What the kernel says is where the user sees it, who alone is told of it. The daemon may
     * have no right to look there, or see another file there. */
    length = strlen(path);
    if (store->shared)
        return length >= sizeof(deleted) &&
                       strcmp(path + length + 1 - sizeof(deleted), deleted) == 0
                   ? -ENOENT
                   : 0;
    /* Deleted, moved away, or in a mount that is not seen here: then it says something else. */
    if (fstat(fd, &status) < 0 || lstat(path, &there) < 0 || status.st_dev != there.st_dev ||
        status.st_ino != there.st_ino)
        return -ENOENT;
    return 0;
}
