/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_name.c -- publishing calls: others rely on what was written before them
 *
 * Each waits until all that this job captured before has reached its files, and
 * fails with the error of a file that did not: as the program would have known it
 * by then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "habit.h"
#include "real.h"
#include "shim.h"

/* False: errno is that of a file that is incomplete. */
static bool after_all(const char *call)
{
    int error = -shim_barrier_of(call);

    if (error != 0)
        errno = error;
    return error == 0;
}

#define AFTER_ALL(name, parameters, arguments, prepare)                                            \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        if (!after_all(__func__))                                                                  \
            return -1;                                                                             \
        prepare;                                                                                   \
        return real_##name arguments;                                                              \
    }
#define PUBLISHES(name, parameters, arguments) AFTER_ALL(name, parameters, arguments, (void)0)
#define DESTROYS(name, parameters, arguments) AFTER_ALL(name, parameters, arguments, shim_clear())

/* The same, and the store hears where the file is now. */
#define RENAMES(name, parameters, arguments, from_at, to_at, exchanges)                            \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        int result;                                                                                \
                                                                                                   \
        if (!after_all(__func__))                                                                  \
            return -1;                                                                             \
        habit_rename(from_at, from, to_at, to);                                                    \
        result = real_##name arguments;                                                            \
        if (result == 0 && shim.env.store[0] != '\0') {                                            \
            shim_renamed(to_at, to);                                                               \
            if (exchanges)                                                                         \
                shim_renamed(from_at, from);                                                       \
        }                                                                                          \
        return result;                                                                             \
    }

RENAMES(rename, (const char *from, const char *to), (from, to), AT_FDCWD, AT_FDCWD, false)
RENAMES(renameat, (int from_at, const char *from, int to_at, const char *to),
        (from_at, from, to_at, to), from_at, to_at, false)
RENAMES(renameat2, (int from_at, const char *from, int to_at, const char *to, unsigned flags),
        (from_at, from, to_at, to, flags), from_at, to_at, (flags & RENAME_EXCHANGE) != 0)
PUBLISHES(link, (const char *from, const char *to), (from, to))
PUBLISHES(linkat, (int from_at, const char *from, int to_at, const char *to, int flags),
          (from_at, from, to_at, to, flags))
PUBLISHES(symlink, (const char *target, const char *path), (target, path))
PUBLISHES(symlinkat, (const char *target, int at, const char *path), (target, at, path))
DESTROYS(unlink, (const char *path), (path))
DESTROYS(unlinkat, (int at, const char *path, int flags), (at, path, flags))
DESTROYS(remove, (const char *path), (path))
DESTROYS(rmdir, (const char *path), (path))
PUBLISHES(mkdir, (const char *path, mode_t mode), (path, mode))
PUBLISHES(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))

/* Plainly it would not be busy with what the store reads there. */
#define UNMOUNTS(name, parameters, arguments)                                                      \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        struct shim_keeping keeping = {0};                                                         \
        int result;                                                                                \
                                                                                                   \
        if (!after_all(__func__))                                                                  \
            return -1;                                                                             \
        shim_clear();                                                                              \
        do                                                                                         \
            result = real_##name arguments;                                                        \
        while (result < 0 && errno == EBUSY && shim_kept(&keeping, path));                         \
        return result;                                                                             \
    }

UNMOUNTS(umount, (const char *path), (path))
UNMOUNTS(umount2, (const char *path, int flags), (path, flags))
