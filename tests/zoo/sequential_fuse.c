/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequential_fuse.c -- a FUSE that takes new files and sequential writes only, as those before object stores do
 *
 *     sequential_fuse DIRECTORY-BELOW MOUNTPOINT
 *
 * A file is written from its beginning to its end, once, by one descriptor; then it may be read, renamed and removed. All
 * else is an error: writing elsewhere, opening for writing again, truncating, fallocate.
 */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int below;

static const char *name(const char *path)
{
    return path[1] != '\0' ? path + 1 : ".";
}

static int result(int value)
{
    return value < 0 ? -errno : 0;
}

static int get(const char *path, struct stat *status, struct fuse_file_info *file)
{
    return result(fstatat(below, name(path), status, AT_SYMLINK_NOFOLLOW));
}

static int list(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
                enum fuse_readdir_flags flags)
{
    int fd = openat(below, name(path), O_RDONLY | O_DIRECTORY);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;

    if (directory == NULL)
        return -errno;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        fill(buffer, entry->d_name, NULL, 0, 0);
    closedir(directory);
    return 0;
}

static int make(const char *path, mode_t mode, struct fuse_file_info *file)
{
    int fd = openat(below, name(path), O_CREAT | O_EXCL | O_RDWR, mode);

    file->fh = (uint64_t)fd;
    file->direct_io = 1;
    return result(fd);
}

static int look(const char *path, struct fuse_file_info *file)
{
    int fd;

    if ((file->flags & O_ACCMODE) != O_RDONLY)
        return -EPERM;
    fd = openat(below, name(path), O_RDONLY);
    file->fh = (uint64_t)fd;
    return result(fd);
}

static int get_bytes(const char *path, char *to, size_t size, off_t offset, struct fuse_file_info *file)
{
    ssize_t n = pread((int)file->fh, to, size, offset);

    return n < 0 ? -errno : (int)n;
}

static int put_bytes(const char *path, const char *from, size_t size, off_t offset, struct fuse_file_info *file)
{
    struct stat status;
    ssize_t n;

    if (fstat((int)file->fh, &status) < 0 || offset != status.st_size)
        return -EINVAL; /* not at its end */
    n = pwrite((int)file->fh, from, size, offset);
    return n < 0 ? -errno : (int)n;
}

static int leave(const char *path, struct fuse_file_info *file)
{
    return result(close((int)file->fh));
}

static int no_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
    return -EPERM;
}

static int sync_it(const char *path, int data, struct fuse_file_info *file)
{
    return result(fsync((int)file->fh));
}

static int name_anew(const char *from, const char *to, unsigned flags)
{
    return flags != 0 ? -EINVAL : result(renameat(below, name(from), below, name(to)));
}

static int forget(const char *path)
{
    return result(unlinkat(below, name(path), 0));
}

static int make_directory(const char *path, mode_t mode)
{
    return result(mkdirat(below, name(path), mode));
}

int main(int count, char **word)
{
    static const struct fuse_operations operations = {
        .getattr = get, .readdir = list, .create = make, .open = look, .read = get_bytes, .write = put_bytes, .release = leave,
        .truncate = no_truncate, .fsync = sync_it, .rename = name_anew, .unlink = forget, .mkdir = make_directory};
    char *arguments[] = {word[0], count > 2 ? word[2] : "", "-s", NULL};

    if (count != 3 || (below = open(word[1], O_RDONLY | O_DIRECTORY)) < 0)
        return 2;
    return fuse_main(3, arguments, &operations, NULL);
}
