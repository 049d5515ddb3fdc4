/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_open.c -- how descriptors come, multiply and go
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/descriptor.h"
#include "client/source.h"
#include "fdtab.h"
#include "file.h"
#include "lent.h"
#include "policy.h"
#include "real.h"
#include "restore.h"
#include "shim.h"
#include "syscalls.h"

/* Three tests are all that opening for reading costs, where it waits for a live file. */
#define READS(flags) (((flags) & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY)
#define WAITS(flags) (READS(flags) && !((flags)&O_NONBLOCK))
#define PASSES(flags) (WAITS(flags) && restore_off() && !shim_live())

/* What has bytes to be read, and may be waited for. */
#define RESTORES(flags) (WAITS(flags) && !((flags) & (O_PATH | O_DIRECTORY)) && restore_on())

#define UNINTERRUPTED(fd, at, path, call)                                                          \
    do                                                                                             \
        fd = (call);                                                                               \
    while (INTERRUPTED(fd < 0, at, path))

/* Around an open, whichever function does it. */
#define OPENED(at, path, flags, call)                                                              \
    do {                                                                                           \
        int fd_, error_;                                                                           \
        enum before before_;                                                                       \
        if (PASSES(flags) || (WAITS(flags) && !restore_on() && !shim_live())) {                    \
            UNINTERRUPTED(fd_, at, path, call);                                                    \
            return fd_;                                                                            \
        }                                                                                          \
        live_before_open(at, path, flags);                                                         \
        error_ = policy_open(at, path, flags);                                                     \
        before_ = policy_before(at, path, flags);                                                  \
        if (error_ != 0) {                                                                         \
            errno = error_;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
        UNINTERRUPTED(fd_, at, path, call);                                                        \
        policy_opened(fd_, flags, before_);                                                        \
        if (RESTORES(flags))                                                                       \
            restore_opened(fd_);                                                                   \
        return fd_;                                                                                \
    } while (0)

static mode_t mode_of(int flags, va_list arguments)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

/* Not inlined: opening for reading, which most calls do, then needs a small stack frame. */
__attribute__((noinline)) static int open_watched(int (*real)(const char *, int, mode_t),
                                                  const char *path, int flags, mode_t mode)
{
    OPENED(AT_FDCWD, path, flags, real(path, flags, mode));
}

__attribute__((noinline)) static int openat_watched(int (*real)(int, const char *, int, mode_t),
                                                    int at, const char *path, int flags,
                                                    mode_t mode)
{
    OPENED(at, path, flags, real(at, path, flags, mode));
}

#define OPEN(name)                                                                                 \
    EXPORT int name(const char *path, int flags, ...)                                              \
    {                                                                                              \
        va_list arguments;                                                                         \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(arguments, flags);                                                                \
        mode = mode_of(flags, arguments);                                                          \
        va_end(arguments);                                                                         \
        if (PASSES(flags)) {                                                                       \
            int fd;                                                                                \
            UNINTERRUPTED(fd, AT_FDCWD, path, real_##name(path, flags, mode));                     \
            return fd;                                                                             \
        }                                                                                          \
        return open_watched(real_##name, path, flags, mode);                                       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    EXPORT int name(int at, const char *path, int flags, ...)                                      \
    {                                                                                              \
        va_list arguments;                                                                         \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(arguments, flags);                                                                \
        mode = mode_of(flags, arguments);                                                          \
        va_end(arguments);                                                                         \
        if (PASSES(flags)) {                                                                       \
            int fd;                                                                                \
            UNINTERRUPTED(fd, at, path, real_##name(at, path, flags, mode));                       \
            return fd;                                                                             \
        }                                                                                          \
        return openat_watched(real_##name, at, path, flags, mode);                                 \
    }
OPENAT(openat)
OPENAT(openat64)

/* Fortified: without a mode, because their flags create nothing. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);

EXPORT int __open_2(const char *path, int flags)
{
    OPENED(AT_FDCWD, path, flags, real___open_2(path, flags));
}

EXPORT int __open64_2(const char *path, int flags)
{
    OPENED(AT_FDCWD, path, flags, real___open64_2(path, flags));
}

EXPORT int __openat_2(int at, const char *path, int flags)
{
    OPENED(at, path, flags, real___openat_2(at, path, flags));
}

EXPORT int __openat64_2(int at, const char *path, int flags)
{
    OPENED(at, path, flags, real___openat64_2(at, path, flags));
}

EXPORT int creat(const char *path, mode_t mode)
{
    OPENED(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, real_creat(path, mode));
}

EXPORT int creat64(const char *path, mode_t mode)
{
    OPENED(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, real_creat64(path, mode));
}

/* What size says of how is the kernel's to judge, as is a pointer to nowhere. */
int syscall_openat2(int at, const char *path, const struct open_how *how, size_t size)
{
    if (size < sizeof(*how) || !portus_source_readable(NULL, how, sizeof(*how)))
        return (int)syscall(SYS_openat2, at, path, how, size);
    OPENED(at, path, (int)how->flags, (int)syscall(SYS_openat2, at, path, how, size));
}

/* Their open is libc's own. The name is not known before, and new: nothing is emptied. */
#define TEMPORARY (O_RDWR | O_CREAT | O_EXCL)
#define MKSTEMP(name, parameters, arguments)                                                       \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        int fd = real_##name arguments;                                                            \
                                                                                                   \
        policy_opened(fd, TEMPORARY, WAS_NOT);                                                     \
        return fd;                                                                                 \
    }
MKSTEMP(mkstemp, (char *name), (name))
MKSTEMP(mkstemp64, (char *name), (name))
MKSTEMP(mkstemps, (char *name, int length), (name, length))
MKSTEMP(mkstemps64, (char *name, int length), (name, length))
#undef TEMPORARY
#define TEMPORARY (O_RDWR | O_CREAT | O_EXCL | flags)
MKSTEMP(mkostemp, (char *name, int flags), (name, flags))
MKSTEMP(mkostemp64, (char *name, int flags), (name, flags))
MKSTEMP(mkostemps, (char *name, int length, int flags), (name, length, flags))
MKSTEMP(mkostemps64, (char *name, int length, int flags), (name, length, flags))

EXPORT int close(int fd)
{
    int error, result;

    if ((unsigned)fd >= FDTAB_SIZE || atomic_load_explicit(&fdtab[fd], memory_order_relaxed) == 0)
        return real_close(fd);
    if (fdtab_ours(fd) && shim_own()) {
        errno = EBADF; /* the program did not open it */
        return -1;
    }
    if (lent(fd))
        lent_end(fd);
    error = file_close(fd);
    result = real_close(fd);
    if (error != 0 && result == 0) {
        errno = error;
        return -1;
    }
    return result;
}

/* libc has it since 2.34 only. */
static int raw_close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

/* Closes what lies between our own descriptors in [first, last]. */
static int close_between(unsigned first, unsigned last, int flags)
{
    unsigned end = last < FDTAB_SIZE ? last : FDTAB_SIZE - 1, start = first;
    struct guard guard;
    int result = 0;

    /* No number at all first: where the call is refused nothing may be forgotten. */
    if (raw_close_range(~0u, ~0u, flags) < 0)
        return -1;
    for (unsigned fd = first; fd <= end && !(flags & (int)CLOSE_RANGE_CLOEXEC); fd++)
        if (fdtab_file((int)fd) != NULL)
            file_replace((int)fd);
    guard = shim_guard();
    portus_lock(&portus_descriptors);
    for (unsigned fd = first; fd <= end; fd++) {
        if (!fdtab_ours((int)fd))
            continue;
        if (fd > start)
            result |= raw_close_range(start, fd - 1, flags);
        start = fd + 1;
    }
    if (start <= last)
        result |= raw_close_range(start, last, flags);
    portus_unlock(&portus_descriptors);
    if (result < 0)
        guard.error = errno;
    shim_unguard(&guard);
    return result;
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    if (first > last || !shim_own())
        return raw_close_range(first, last, flags);
    return close_between(first, last, flags);
}

EXPORT void closefrom(int first)
{
    unsigned start = first < 0 ? 0 : (unsigned)first;

    if (!shim_own()) {
        if (raw_close_range(start, ~0u, 0) < 0)
            real_closefrom(first);
    } else if (close_between(start, ~0u, 0) < 0) {
        for (unsigned fd = start; fd < FDTAB_SIZE; fd++)
            if (!fdtab_ours((int)fd))
                file_replace((int)fd);
        real_closefrom(first);
    }
}

EXPORT int dup(int fd)
{
    int other = real_dup(fd);

    if (lent(fd))
        lent_end(fd); /* one lock for one offset */
    if (other >= 0 && fdtab_file(fd) != NULL && shim_own())
        file_duplicate(fd, other);
    return other;
}

static bool is_open(int fd)
{
    int saved = errno;
    bool is = syscall(SYS_fcntl, fd, F_GETFD, 0) >= 0;

    errno = saved;
    return is;
}

/*
 * The call, where `other` may be a number of ours: it is the program's to have. EBUSY, which
 * it is while a descriptor is just being opened, only if threads go on saving for long.
 */
static int put_under_high(int fd, int other, int flags, int (*call)(int, int, int))
{
    for (unsigned tries = 0; tries < 20; tries++) {
        struct guard guard = shim_guard();
        bool ours;
        int result = -1;

        portus_lock(&portus_descriptors);
        ours = fdtab_ours(other);
        if (!ours && (result = call(fd, other, flags)) < 0)
            guard.error = errno;
        portus_unlock(&portus_descriptors);
        shim_unguard(&guard);
        if (!ours)
            return result;
        if (!is_open(fd)) {
            errno = EBADF;
            return -1;
        }
        if (!shim_give_up())
            break;
    }
    errno = EBUSY;
    return -1;
}

/* Puts fd under the number `other`, whatever is there. */
static int put_under(int fd, int other, int flags, int (*call)(int, int, int))
{
    bool left;
    int result;

    if (lent(fd))
        lent_end(fd);
    if ((unsigned)other >= FDTAB_SIZE || fd == other || !shim_own())
        return call(fd, other, flags);
    left = fdtab_file(other) != NULL && is_open(fd); /* else it fails and closes nothing */
    if (left)
        file_replace(other);
    result = other < PORTUS_HIGH_DESCRIPTOR ? call(fd, other, flags)
                                            : put_under_high(fd, other, flags, call);
    if (result < 0 && left) /* not replaced after all: its writes must not meet the drain */
        live_release_at(other, NULL, 0);
    if (result >= 0 && fdtab_file(fd) != NULL)
        file_duplicate(fd, other);
    return result;
}

static int call_dup2(int fd, int other, int flags)
{
    (void)flags;
    return real_dup2(fd, other);
}

EXPORT int dup2(int fd, int other)
{
    return put_under(fd, other, 0, call_dup2);
}

EXPORT int dup3(int fd, int other, int flags)
{
    return put_under(fd, other, flags, real_dup3);
}

/* Commands that neither read nor change what capturing depends on. */
static bool harmless(int command)
{
    return command == F_GETFD || command == F_SETFD || command == F_GET_SEALS ||
           command == F_GETPIPE_SZ || command == F_GET_RW_HINT;
}

static int control(int (*real)(int, int, long), int fd, int command, long argument)
{
    struct file *file = fdtab_file(fd);
    int result, error;

    if (lent(fd) && !harmless(command) && command != F_GETFL)
        lent_end(fd);
    if (file == NULL && (command == F_SETLK || command == F_SETLKW))
        file_before_lock(fd);
    if (file == NULL || harmless(command) || !shim_own())
        return real(fd, command, argument);
    if (command == F_GETFL) {
        result = real(fd, command, argument);
        if (result >= 0 && atomic_load(&file->state) == FILE_ENGAGED)
            result &= ~O_ASYNC; /* the kernel sets it with a lease */
        return result;
    }
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        result = real(fd, command, argument);
        if (result >= 0)
            file_duplicate(fd, result);
        return result;
    }
    error = file_release(file, fd);
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (command == F_SETLK || command == F_SETLKW)
        file_before_lock(fd);
    return real(fd, command, argument);
}

EXPORT int fcntl(int fd, int command, ...)
{
    va_list arguments;
    long argument;

    va_start(arguments, command);
    argument = va_arg(arguments, long);
    va_end(arguments);
    return control(real_fcntl, fd, command, argument);
}

int fcntl64(int fd, int command, ...);
EXPORT int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    long argument;

    va_start(arguments, command);
    argument = va_arg(arguments, long);
    va_end(arguments);
    return control(real_fcntl64, fd, command, argument);
}
