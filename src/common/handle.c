/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle.c -- what a file is, and where: by its descriptor
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
#include <sys/vfs.h>
#include <unistd.h>

#include "common/listing.h"

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

int listing_path(int fd, char *path, size_t size)
{
    char link[32];
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, size - 1);
    if (length < 0)
        return -errno;
    path[length] = '\0';
    return path[0] == '/' ? 0 : -ENOENT;
}

int listing_parent(int fd, char path[PATH_MAX + 1])
{
    char *slash;
    int error = listing_path(fd, path, PATH_MAX + 1), directory;

    if (error != 0)
        return error;
    slash = strrchr(path, '/');
    slash[slash == path] = '\0';
    directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return directory < 0 ? -errno : directory;
}

/*
 * A description that is a name only (O_PATH) cannot be asked: then its directory is. Whether it
 * told; error: why the directory could not be asked, though it could another time: then nothing
 * else may stand for it, or the file would seem another.
 */
static bool ask_directory(int fd, uint8_t uuid[16], int *error)
{
    char path[PATH_MAX + 1];
    int directory = errno == EBADF ? listing_parent(fd, path) : -ENOENT;
    bool told;

    *error = 0;
    if (directory < 0) {
        if (directory != -ENOENT && directory != -ENOTDIR && directory != -EACCES &&
            directory != -EPERM)
            *error = directory;
        return false;
    }
    told = ask(directory, uuid);
    close(directory);
    return told;
}

int listing_handle(int fd, struct listing_entry *entry)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + LISTING_HANDLE];
    } name = {.handle.handle_bytes = LISTING_HANDLE};
    struct statfs status;
    int mount, error;

    memset(entry, 0, sizeof(*entry));
    if (!ask(fd, entry->file_system) && !ask_directory(fd, entry->file_system, &error)) {
        if (error != 0)
            return error;
        if (fstatfs(fd, &status) < 0)
            return -errno;
        memcpy(entry->file_system, &status.f_fsid, sizeof(status.f_fsid));
        memcpy(entry->file_system + 8, &status.f_type, 8);
    }
    if (name_to_handle_at(fd, "", &name.handle, &mount, AT_EMPTY_PATH) < 0)
        return -errno;
    entry->handle_type = (uint32_t)name.handle.handle_type;
    entry->handle_bytes = name.handle.handle_bytes;
    memcpy(entry->handle, name.handle.f_handle, name.handle.handle_bytes);
    return 0;
}

static char *digits(char *to, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to += sprintf(to, "%02x", bytes[i]);
    return to;
}

void listing_text(const struct listing_entry *entry, char text[LISTING_TEXT])
{
    char *to = text;

    *to++ = '@';
    to = digits(to, entry->file_system, sizeof(entry->file_system));
    to += sprintf(to, "%08x", entry->handle_type);
    digits(to, entry->handle, entry->handle_bytes);
}
