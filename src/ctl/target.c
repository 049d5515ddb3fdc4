// SPDX-License-Identifier: BSD-3-Clause
/*
 * target.c -- which live files a path on the command line means
 *
 * A file is known by device and inode: its path in the control segment is for
 * people, may be cut, and is old after a rename. For a directory the inodes of a
 * file's two nearest directories are compared, and below those the paths.
 */
#include "ctl/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int target_find(struct target *target, const char *path)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return -EINVAL;
    *target = (struct target){
        .path = path,
        .real = realpath(path, NULL),
        .device = status.st_dev,
        .inode = status.st_ino,
        .directory = S_ISDIR(status.st_mode),
    };
    return 0;
}

void target_free(struct target *target)
{
    free(target->real);
    target->real = NULL;
}

/* Whether path is below the directory. */
static bool below(const char *directory, const char *path)
{
    size_t length = strlen(directory);

    while (length > 0 && directory[length - 1] == '/')
        length--;
    return strncmp(path, directory, length) == 0 && path[length] == '/';
}

bool target_covers(const struct target *target, const struct view_file *file)
{
    if (!target->directory)
        return file->inode == target->inode && file->device == target->device;
    for (unsigned i = 0; i < PORTUS_ANCESTORS; i++)
        if (file->device == target->device && file->directory[i] == target->inode)
            return true;
    return target->real != NULL && file->path[0] == '/' && below(target->real, file->path);
}

struct mark mark_make(const struct view_file *file)
{
    return (struct mark){
        .slot = file->slot,
        .device = file->device,
        .inode = file->inode,
        .since_ns = file->since_ns,
        .base = file->drained,
        .drained = file->drained,
        .captured = file->captured,
    };
}

bool mark_is(const struct mark *mark, const struct view_file *file)
{
    return mark->slot == file->slot && mark->inode == file->inode && mark->device == file->device &&
           mark->since_ns == file->since_ns;
}
