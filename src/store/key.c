/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * key.c -- what a file is, whatever its name: its file system's UUID and its handle
 *
 * A handle holds the inode and its generation, so a new file in an old one's inode is
 * another object. Two hosts' file systems are told apart by the UUID; where the kernel
 * does not tell it (before 6.9), by what statfs says, which ext4, xfs and btrfs make
 * from the UUID.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/state.h"

/* linux/fs.h since 6.9 */
struct uuid_answer {
    uint8_t length;
    uint8_t uuid[16];
};
#define GET_UUID _IOR(0x15, 0, struct uuid_answer)

static bool ask(int fd, uint8_t uuid[16])
{
    struct uuid_answer answer = {0};

    if (ioctl(fd, GET_UUID, &answer) < 0 || answer.length != 16)
        return false;
    memcpy(uuid, answer.uuid, 16);
    return true;
}

/* A description that is a name only (O_PATH) cannot be asked: then its directory is. */
static bool ask_directory(int fd, uint8_t uuid[16])
{
    char path[PATH_MAX + 1], *slash;
    int directory;
    bool told;

    if (errno != EBADF || store_path(fd, path, sizeof(path)) != 0)
        return false;
    slash = strrchr(path, '/');
    slash[slash == path] = '\0';
    directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    told = directory >= 0 && ask(directory, uuid);
    if (directory >= 0)
        close(directory);
    return told;
}

int store_key(int fd, struct pool_key *key)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + POOL_HANDLE_MAX];
    } name = {.handle.handle_bytes = POOL_HANDLE_MAX};
    struct statfs status;
    int mount;

    memset(key, 0, sizeof(*key));
    if (!ask(fd, key->file_system) && !ask_directory(fd, key->file_system)) {
        if (fstatfs(fd, &status) < 0)
            return -errno;
        memcpy(key->file_system, &status.f_fsid, sizeof(status.f_fsid));
        memcpy(key->file_system + 8, &status.f_type, 8);
    }
    if (name_to_handle_at(fd, "", &name.handle, &mount, AT_EMPTY_PATH) < 0)
        return -errno;
    key->handle_type = (uint32_t)name.handle.handle_type;
    key->handle_bytes = name.handle.handle_bytes;
    memcpy(key->handle, name.handle.f_handle, name.handle.handle_bytes);
    return 0;
}

int64_t store_nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

int store_path(int fd, char *path, size_t size)
{
    struct stat status, there;
    char link[32];
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, size - 1);
    if (length < 0)
        return -errno;
    path[length] = '\0';
    /* Deleted, moved away, or in a mount that is not seen here: then it says something else. */
    if (path[0] != '/' || fstat(fd, &status) < 0 || lstat(path, &there) < 0 ||
        status.st_dev != there.st_dev || status.st_ino != there.st_ino)
        return -ENOENT;
    return 0;
}
