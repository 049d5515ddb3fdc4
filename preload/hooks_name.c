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
#include <poll.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "habit.h"
#include "real.h"
#include "shim.h"

#define KEPT_NS 10000000000ull
#define LEFT_NS 100000000ull /* in which portusd closes what the agent has closed */

/* False: errno is that of a file that is incomplete. */
static bool after_all(const char *call, int at, const char *path)
{
    int error = -shim_barrier_at(call, at, path);

    if (error != 0)
        errno = error;
    return error == 0;
}

#define AFTER_ALL(name, parameters, arguments, at, path, prepare)                                  \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        if (!after_all(__func__, at, path))                                                        \
            return -1;                                                                             \
        prepare;                                                                                   \
        return real_##name arguments;                                                              \
    }
#define PUBLISHES(name, parameters, arguments, at, path)                                           \
    AFTER_ALL(name, parameters, arguments, at, path, (void)0)
#define DESTROYS(name, parameters, arguments, at, path)                                            \
    AFTER_ALL(name, parameters, arguments, at, path, shim_clear())

/* The same, and the store hears where the file is now. */
#define RENAMES(name, parameters, arguments, from_at, to_at, exchanges)                            \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        int result;                                                                                \
                                                                                                   \
        if (!after_all(__func__, to_at, to))                                                       \
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
PUBLISHES(link, (const char *from, const char *to), (from, to), AT_FDCWD, to)
PUBLISHES(linkat, (int from_at, const char *from, int to_at, const char *to, int flags),
          (from_at, from, to_at, to, flags), to_at, to)
PUBLISHES(symlink, (const char *target, const char *path), (target, path), AT_FDCWD, path)
PUBLISHES(symlinkat, (const char *target, int at, const char *path), (target, at, path), at, path)
DESTROYS(unlink, (const char *path), (path), AT_FDCWD, path)
DESTROYS(unlinkat, (int at, const char *path, int flags), (at, path, flags), at, path)
DESTROYS(remove, (const char *path), (path), AT_FDCWD, path)
DESTROYS(rmdir, (const char *path), (path), AT_FDCWD, path)
PUBLISHES(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
PUBLISHES(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), at, path)

/*
 * What was busy may be so because a file is held for the store: waits a moment, for 10 s in all.
 * False: it is not, or that was all. began, last: 0 at first. Leaves errno alone.
 */
static bool kept(const char *path, uint64_t *began, uint64_t *last)
{
    struct portus_control *control = shim_control();
    uint64_t now = portus_now();
    int saved = errno;

    if (control == NULL ||
        (*began == 0 && atomic_load(&control->store) == 0 && atomic_load(&control->keeping) == 0))
        return false;
    if (*began == 0)
        *began = *last = now;
    if (atomic_load(&control->keeping) != 0)
        *last = now;
    if (now - *began > KEPT_NS) {
        log_warn("%s: is busy, perhaps as portusd still reads a checkpoint there", path);
        return false;
    }
    if (now - *last >= LEFT_NS)
        return false;
    poll(NULL, 0, 2);
    errno = saved;
    return true;
}

/* Plainly it would not be busy with what the store reads there. */
#define UNMOUNTS(name, parameters, arguments)                                                      \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        uint64_t began = 0, last = 0;                                                              \
        int result;                                                                                \
                                                                                                   \
        if (!after_all(__func__, AT_FDCWD, path))                                                  \
            return -1;                                                                             \
        shim_clear();                                                                              \
        do                                                                                         \
            result = real_##name arguments;                                                        \
        while (result < 0 && errno == EBUSY && kept(path, &began, &last));                         \
        return result;                                                                             \
    }

UNMOUNTS(umount, (const char *path), (path))
UNMOUNTS(umount2, (const char *path, int flags), (path, flags))
