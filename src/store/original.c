/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * original.c -- reads the file that a version was made of, if it is still that file as it was
 *
 * Not here: whether the bytes are the version's; their CRC tells.
 *
 * It is looked at before it is opened: to open a file that is being saved anew would break
 * the lease that the agent has on it, and one that was is not the same any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"
#include "store/scrub.h"
#include "store/state.h"

static bool as_it_was(const struct stat *status, const struct scrub_stamp *stamp)
{
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size == stamp->size &&
           portus_nanoseconds(&status->st_mtim) == stamp->mtime &&
           portus_nanoseconds(&status->st_ctim) == stamp->ctime;
}

static int read_all(int fd, uint64_t offset, char *to, size_t length)
{
    while (length > 0) {
        ssize_t n = pread(fd, to, length, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        to += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return 0;
}

int original_read(const struct pool_version *version, const struct scrub_stamp *stamp,
                  uint64_t offset, void *to, size_t length)
{
    struct pool_key key;
    struct stat status;
    int fd, error;

    if (lstat(version->attributes.path, &status) < 0)
        return -errno;
    if (!as_it_was(&status, stamp))
        return -ESTALE;
    fd = open(version->attributes.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    error = fstat(fd, &status) < 0 ? -errno : as_it_was(&status, stamp) ? 0 : -ESTALE;
    if (error == 0)
        error = store_key(fd, &key);
    if (error == 0 && !store_same_file(&key, &version->key))
        error = -ESTALE;
    if (error == 0)
        error = read_all(fd, offset, to, length);
    if (error == 0 && (fstat(fd, &status) < 0 || !as_it_was(&status, stamp)))
        error = -ESTALE;
    close(fd);
    return error;
}
