/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_stat.c -- sizes as the program wrote them, and metadata that must stay as set
 *
 * The real call is made first and its answer corrected: only while files are live,
 * and only for those. A process that has captured nothing does not know the job's agent.
 * It looks for one when a file is such as a live one may be.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "fdtab.h"
#include "file.h"
#include "real.h"
#include "shim.h"
#include "syscalls.h"

#define LATELY_S 600

/* Counts the files that have become ordinary ones. */
static inline uint32_t settled(void)
{
    struct portus_control *control = shim_control();

    return control != NULL ? atomic_load(&control->finished) : 0;
}

/*
 * A live file was made, or drained, lately; or it waits for long, and room is reserved beyond
 * its end. st_blocks counts 512 bytes on all file systems.
 */
static bool may_be_live(int64_t ctime, uint64_t size, uint64_t blocks, uint64_t block_size)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return ctime > now.tv_sec - LATELY_S || blocks * 512 > size + block_size;
}

static void look(int64_t ctime, uint64_t size, uint64_t blocks, uint64_t block_size)
{
    if (!atomic_load(&shim.connected) && may_be_live(ctime, size, blocks, block_size))
        shim_look();
}

enum answer { KERNEL, OURS, AGAIN };

/*
 * Whose size holds after the kernel was asked: while a file is live, ours. If it
 * became an ordinary one since `before`, the kernel's answer may be older than that,
 * and it must be asked again.
 */
static enum answer whose(uint64_t device, uint64_t inode, uint32_t before, off_t *size)
{
    if (shim_live()) {
        switch (live_size(device, inode, size)) {
        case LIVE_SIZE:
            return OURS;
        case LIVE_SETTLING:
            return AGAIN;
        case LIVE_NOT:
            break;
        }
    }
    return before != settled() ? AGAIN : KERNEL;
}

/* Makes a stat call, and corrects what it says of a live file's size. */
#define CORRECTED(call)                                                                            \
    do {                                                                                           \
        uint32_t before_ = settled();                                                              \
        int result_ = (int)(call);                                                                 \
        off_t size_ = 0;                                                                           \
                                                                                                   \
        if (result_ != 0 || !S_ISREG(status->st_mode))                                             \
            return result_;                                                                        \
        look(status->st_ctime, (uint64_t)status->st_size, (uint64_t)status->st_blocks,             \
             (uint64_t)status->st_blksize);                                                        \
        if (before_ == settled() && !shim_live())                                                  \
            return result_;                                                                        \
        switch (whose(status->st_dev, status->st_ino, before_, &size_)) {                          \
        case OURS:                                                                                 \
            if (status->st_size < size_) /* it may be larger, by what stdio writes unseen */       \
                status->st_size = size_;                                                           \
            break;                                                                                 \
        case AGAIN:                                                                                \
            return (int)(call);                                                                    \
        case KERNEL:                                                                               \
            break;                                                                                 \
        }                                                                                          \
        return result_;                                                                            \
    } while (0)

#define STAT(name, kind, parameters, arguments)                                                    \
    int name parameters;                                                                           \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        CORRECTED(real_##name arguments);                                                          \
    }

STAT(stat, stat, (const char *path, struct stat *status), (path, status))
STAT(lstat, stat, (const char *path, struct stat *status), (path, status))
STAT(fstat, stat, (int fd, struct stat *status), (fd, status))
STAT(fstatat, stat, (int at, const char *path, struct stat *status, int flags),
     (at, path, status, flags))
STAT(stat64, stat64, (const char *path, struct stat64 *status), (path, status))
STAT(lstat64, stat64, (const char *path, struct stat64 *status), (path, status))
STAT(fstat64, stat64, (int fd, struct stat64 *status), (fd, status))
STAT(fstatat64, stat64, (int at, const char *path, struct stat64 *status, int flags),
     (at, path, status, flags))
STAT(__xstat, stat, (int version, const char *path, struct stat *status), (version, path, status))
STAT(__lxstat, stat, (int version, const char *path, struct stat *status), (version, path, status))
STAT(__fxstat, stat, (int version, int fd, struct stat *status), (version, fd, status))
STAT(__fxstatat, stat, (int version, int at, const char *path, struct stat *status, int flags),
     (version, at, path, status, flags))
STAT(__xstat64, stat64, (int version, const char *path, struct stat64 *status),
     (version, path, status))
STAT(__lxstat64, stat64, (int version, const char *path, struct stat64 *status),
     (version, path, status))
STAT(__fxstat64, stat64, (int version, int fd, struct stat64 *status), (version, fd, status))
STAT(__fxstatat64, stat64,
     (int version, int at, const char *path, struct stat64 *status, int flags),
     (version, at, path, status, flags))

/* The kernel's struct stat is libc's on machines of 64 bits. */
long syscall_stat(long number, long a, long b, long c, long d, struct stat *status)
{
    CORRECTED(syscall(number, a, b, c, d));
}

EXPORT int statx(int at, const char *path, int flags, unsigned mask, struct statx *status)
{
    uint32_t before = settled();
    int result = real_statx(at, path, flags, mask, status);
    off_t size = 0;

    if (result != 0 || !(status->stx_mask & STATX_SIZE))
        return result;
    look(status->stx_mask & STATX_CTIME ? status->stx_ctime.tv_sec : INT64_MAX, status->stx_size,
         status->stx_blocks, status->stx_blksize);
    switch (whose(makedev(status->stx_dev_major, status->stx_dev_minor), status->stx_ino, before,
                  &size)) {
    case OURS:
        if (status->stx_size < (uint64_t)size)
            status->stx_size = (uint64_t)size;
        break;
    case AGAIN:
        return real_statx(at, path, flags, mask, status);
    case KERNEL:
        break;
    }
    return result;
}

/* --- walks: libc asks for sizes inside, and what is drained needs no correction --- */

#define WALKS(type, name, parameters, arguments)                                                   \
    EXPORT type name parameters                                                                    \
    {                                                                                              \
        shim_look();                                                                               \
        if (shim_live())                                                                           \
            shim_barrier();                                                                        \
        return real_##name arguments;                                                              \
    }

WALKS(int, ftw, (const char *path, __ftw_func_t each, int fds), (path, each, fds))
WALKS(int, ftw64, (const char *path, __ftw64_func_t each, int fds), (path, each, fds))
WALKS(int, nftw, (const char *path, __nftw_func_t each, int fds, int flags),
      (path, each, fds, flags))
WALKS(int, nftw64, (const char *path, __nftw64_func_t each, int fds, int flags),
      (path, each, fds, flags))
WALKS(FTSENT *, fts_read, (FTS * walk), (walk))
WALKS(FTSENT *, fts_children, (FTS * walk, int options), (walk, options))
WALKS(FTSENT64 *, fts64_read, (FTS64 * walk), (walk))
WALKS(FTSENT64 *, fts64_children, (FTS64 * walk, int options), (walk, options))

/* --- metadata --- */

/* The drain changes times, and may clear set-id bits: before metadata is set it is through. */
static void settle_path(int at, const char *path, int flags)
{
    shim_look();
    live_release_at(at, path, flags);
}

#define BY_PATH(name, parameters, arguments, at, path, flags)                                      \
    int name parameters;                                                                           \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        settle_path(at, path, flags);                                                              \
        return real_##name arguments;                                                              \
    }
#define BY_FD(name, parameters, arguments)                                                         \
    int name parameters;                                                                           \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        settle_path(fd, NULL, 0);                                                                  \
        return real_##name arguments;                                                              \
    }

BY_FD(futimens, (int fd, const struct timespec times[2]), (fd, times))
BY_FD(futimes, (int fd, const struct timeval times[2]), (fd, times))
BY_PATH(utimensat, (int at, const char *path, const struct timespec times[2], int flags),
        (at, path, times, flags), at, path, flags)
BY_PATH(utimes, (const char *path, const struct timeval times[2]), (path, times), AT_FDCWD, path, 0)
BY_PATH(utime, (const char *path, const struct utimbuf *times), (path, times), AT_FDCWD, path, 0)
BY_PATH(lutimes, (const char *path, const struct timeval times[2]), (path, times), AT_FDCWD, path,
        AT_SYMLINK_NOFOLLOW)
BY_PATH(futimesat, (int at, const char *path, const struct timeval times[2]), (at, path, times), at,
        path, 0)
BY_PATH(chmod, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path, 0)
BY_FD(fchmod, (int fd, mode_t mode), (fd, mode))
BY_PATH(fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), at,
        path, flags)
BY_PATH(chown, (const char *path, uid_t user, gid_t group), (path, user, group), AT_FDCWD, path, 0)
BY_FD(fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
BY_PATH(lchown, (const char *path, uid_t user, gid_t group), (path, user, group), AT_FDCWD, path,
        AT_SYMLINK_NOFOLLOW)
BY_PATH(fchownat, (int at, const char *path, uid_t user, gid_t group, int flags),
        (at, path, user, group, flags), at, path, flags)
BY_PATH(setxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
        (path, name, value, size, flags), AT_FDCWD, path, 0)
BY_PATH(lsetxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
        (path, name, value, size, flags), AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
BY_FD(fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
      (fd, name, value, size, flags))

BY_PATH(removexattr, (const char *path, const char *name), (path, name), AT_FDCWD, path, 0)
BY_PATH(lremovexattr, (const char *path, const char *name), (path, name), AT_FDCWD, path,
        AT_SYMLINK_NOFOLLOW)
BY_FD(fremovexattr, (int fd, const char *name), (fd, name))

/* --- truncation by name: it destroys, and it is of a live file the drain's end --- */

static int ordered(int (*real)(const char *, off_t), const char *path, off_t length)
{
    int error = -shim_barrier_at("truncate", AT_FDCWD, path);

    if (error != 0) {
        errno = error;
        return -1;
    }
    settle_path(AT_FDCWD, path, 0);
    return real(path, length);
}

EXPORT int truncate(const char *path, off_t length)
{
    return ordered(real_truncate, path, length);
}

EXPORT int truncate64(const char *path, off_t length)
{
    return ordered(real_truncate64, path, length);
}
