/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name.c -- the addresses of this user's agent and store
 *
 * An abstract socket name needs no directory that may be missing, full or
 * read-only, vanishes with its owner, and binding it is the lock that keeps a
 * second agent away. That another user may have taken the name is found by
 * SO_PEERCRED, never by the name.
 */
#include "common/name.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/hash.h"

static int hash_file(uint64_t *state, const char *path)
{
    char data[1024];
    long length;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    while ((length = syscall(SYS_read, fd, data, sizeof(data))) > 0)
        *state = portus_hash(*state, data, (size_t)length);
    syscall(SYS_close, fd);
    return length < 0 ? -EIO : 0;
}

static int hash_link(uint64_t *state, const char *path)
{
    char target[64];
    ssize_t length = readlink(path, target, sizeof(target));

    if (length < 0)
        return -errno;
    *state = portus_hash(*state, target, (size_t)length);
    return 0;
}

static void put(struct sockaddr_un *address, socklen_t *length, const char *what, uint64_t state)
{
    int written;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    written = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s/%u/%u/%016llx",
                       what, 1u, (unsigned)geteuid(), (unsigned long long)state);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
}

int portus_name(struct sockaddr_un *address, socklen_t *length, const char *job)
{
    uint64_t state = PORTUS_HASH_EMPTY;
    int error = 0;

    if (job[0] != '\0')
        state = portus_hash(state, job, strlen(job) + 1);
    else
        error = hash_file(&state, "/proc/self/cgroup");
    if (error == 0)
        error = hash_link(&state, "/proc/self/ns/mnt");
    if (error == 0)
        error = hash_link(&state, "/proc/self/ns/pid");
    if (error == 0)
        error = hash_link(&state, "/proc/self/ns/user");
    if (error != 0)
        return error;
    put(address, length, "portus", state);
    return 0;
}

int portus_name_store(struct sockaddr_un *address, socklen_t *length, const char *path)
{
    struct statx status;
    uint64_t state = PORTUS_HASH_EMPTY, which[3];

    if (strncmp(path, PORTUS_NAME_UNIX, strlen(PORTUS_NAME_UNIX)) == 0) {
        path += strlen(PORTUS_NAME_UNIX);
        if (strlen(path) >= sizeof(address->sun_path))
            return -ENAMETOOLONG;
        memset(address, 0, sizeof(*address));
        address->sun_family = AF_UNIX;
        memcpy(address->sun_path, path, strlen(path));
        *length = sizeof(*address);
        return 0;
    }
    if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_TYPE | STATX_INO, &status) < 0)
        return -errno;
    /* A device by its number, whatever node it has. */
    which[0] = S_ISCHR(status.stx_mode);
    which[1] = which[0] ? makedev(status.stx_rdev_major, status.stx_rdev_minor) : status.stx_ino;
    which[2] = which[0] ? 0 : makedev(status.stx_dev_major, status.stx_dev_minor);
    state = portus_hash(state, (const char *)which, sizeof(which));
    put(address, length, "portus-store", state);
    return 0;
}

uint32_t portus_store_hash(const char *path)
{
    struct sockaddr_un address;
    socklen_t length;
    uint64_t state;

    if (path[0] == '\0')
        return 0;
    if (portus_name_store(&address, &length, path) == 0)
        state = portus_hash(PORTUS_HASH_EMPTY, (const char *)&address, length);
    else /* it is not there yet */
        state = portus_hash(PORTUS_HASH_EMPTY, path, strlen(path));
    return (uint32_t)(state >> 32 ^ state) | 1; /* never 0 */
}
