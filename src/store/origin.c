/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.c -- where a file that is to be kept comes from: this machine, or another one
 *
 * Here it is a descriptor, which may hang (hand.c); there it is what its client said of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "store/hand.h"
#include "store/state.h"

int origin_stat(const struct store_file *file, struct stat *status)
{
    if (file->far == NULL)
        return hand_stat(file->uid, file->fd, status);
    *status = file->far->name.status;
    return far_file_gone(file->far) ? -ESTALE : 0;
}

int origin_key(const struct store_file *file, struct pool_key *key)
{
    int error;

    if (file->far != NULL) {
        *key = file->far->name.key;
        return 0;
    }
    error = hand_key(file->uid, file->fd, key);
    key->owner = file->uid;
    return error;
}

int origin_path(const struct store *store, const struct store_file *file, char *path, size_t size)
{
    if (file->far == NULL)
        return store_path(store, file->fd, path, size);
    strncpy(path, file->far->name.path, size - 1);
    path[size - 1] = '\0';
    return 0;
}

bool origin_held(const struct store_file *file)
{
    return file->far != NULL ? !far_file_gone(file->far) : fcntl(file->fd, F_GETLEASE) == F_RDLCK;
}

int origin_close(struct store_file *file)
{
    int fd = file->fd;

    if (file->far != NULL)
        far_file_close(file->far);
    file->far = NULL;
    file->fd = -1;
    return fd >= 0 ? hand_close(file->uid, fd) : 0;
}
