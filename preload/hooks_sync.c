/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_sync.c -- calls after which bytes are on the disk
 *
 * What the log holds is in the file before the real call is made. What the store has committed is
 * as durable, where PORTUS_ORDER=relaxed says that this is enough.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/trace.h"
#include "fdtab.h"
#include "file.h"
#include "real.h"
#include "shim.h"

static int fail(int error)
{
    errno = error;
    return -1;
}

static bool is_directory(int fd)
{
    struct statx status;

    return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 &&
           S_ISDIR(status.stx_mode);
}

static int sync_file(int (*real)(int), int fd)
{
    struct file *file = fdtab_file(fd);
    int error = 0;

    if (file != NULL) {
        file->synced = true;
        if (file_kept(file, fd))
            return 0;
        error = file_drain(file, fd);
        if (error == 0)
            error = file_error(file, false);
    }
    if (error == 0 && shim_live() && is_directory(fd))
        error = -shim_barrier_at(NULL, fd, "");
    return error != 0 ? fail(error) : real(fd);
}

static int synced(int (*real)(int), int fd, const char *call)
{
    uint64_t began = portus_trace_on() ? portus_now() : 0;
    int result = sync_file(real, fd);

    shim_trace_wait(call, began);
    return result;
}

EXPORT int fsync(int fd)
{
    return synced(real_fsync, fd, __func__);
}

EXPORT int fdatasync(int fd)
{
    return synced(real_fdatasync, fd, __func__);
}

EXPORT void sync(void)
{
    shim_barrier_untold();
    real_sync();
}

EXPORT int syncfs(int fd)
{
    int error = -shim_barrier_at(__func__, fd, "");

    return error != 0 ? fail(error) : real_syncfs(fd);
}

EXPORT int sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
    struct file *file = fdtab_file(fd);
    uint64_t began = portus_trace_on() ? portus_now() : 0;
    int error = file != NULL ? file_drain(file, fd) : 0;

    shim_trace_wait(__func__, began);
    return error != 0 ? fail(error) : real_sync_file_range(fd, offset, length, flags);
}
