/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.c -- files of this job that are live, by device and inode
 *
 * For calls that go by a path, or by a descriptor that the table does not know.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file.h"
#include "file_private.h"
#include "shim.h"

#define SETTLES_MS 2000

/* The entry of a file of this job that is in one of the states from first to last. */
static struct portus_file *find(uint64_t device, uint64_t inode, uint32_t first, uint32_t last)
{
    struct portus_control *control = shim_control();

    if (control == NULL)
        return NULL;
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *entry = &control->file[i];
        uint32_t state = atomic_load(&entry->state);
        if (state >= first && state <= last && entry->inode == inode && entry->device == device)
            return entry;
    }
    return NULL;
}

static struct portus_file *find_live(uint64_t device, uint64_t inode)
{
    struct portus_control *control = shim_control();

    if (control == NULL || atomic_load(&control->live) == 0)
        return NULL;
    return find(device, inode, PORTUS_FILE_CLAIMED, PORTUS_FILE_TRIMMED);
}

bool live_known(uint64_t device, uint64_t inode)
{
    return find(device, inode, PORTUS_FILE_CLAIMED, PORTUS_FILE_DONE) != NULL;
}

enum live_answer live_size(uint64_t device, uint64_t inode, off_t *size)
{
    struct portus_file *entry = find_live(device, inode);

    if (entry == NULL)
        return LIVE_NOT;
    *size = (off_t)atomic_load(&entry->size);
    return atomic_load(&entry->state) < PORTUS_FILE_TRIMMED ? LIVE_SIZE : LIVE_SETTLING;
}

static void release(uint64_t device, uint64_t inode, int at, const char *path)
{
    struct portus_file *entry = find_live(device, inode);
    struct guard guard;
    struct portus_patience patience = {0};
    bool ours = false;

    if (entry == NULL || !shim_own())
        return;
    guard = shim_guard();
    files_release_inode(device, inode);
    /* What is left is closed, or another process's. */
    if (shim_use()) {
        ours = atomic_load(&entry->owner) == shim.writer.link.session + 1;
        while (ours && find_live(device, inode) == entry && !atomic_load(&shim.writer.gone))
            portus_writer_pause(&shim.writer, &patience);
        shim_done();
    }
    if (!ours) {
        shim_barrier_untold_at("open", at, path);
        /* All is replayed: the agent is about to set its time, and to let the lease go. */
        for (unsigned tries = 0; tries < SETTLES_MS && find_live(device, inode) == entry &&
                                 (atomic_load(&entry->last) & PORTUS_STOPPED) != 0;
             tries++)
            poll(NULL, 0, 1);
    }
    shim_unguard(&guard);
}

void live_release_at(int at, const char *path, int flags)
{
    struct statx status;
    int saved = errno;

    if (shim_live() && syscall(SYS_statx, at, path == NULL ? "" : path,
                               (flags & AT_SYMLINK_NOFOLLOW) | (path == NULL ? AT_EMPTY_PATH : 0),
                               STATX_INO, &status) == 0)
        release(makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino, at,
                path == NULL ? "" : path);
    errno = saved;
}

void live_before_open(int at, const char *path, int flags)
{
    struct portus_control *control;
    bool any = (flags & O_NONBLOCK) != 0; /* it would not wait for the lease */

    if (any)
        shim_look();
    control = shim_control();
    if (control == NULL || path == NULL || !shim_own())
        return;
    for (unsigned i = 0; i < PORTUS_FILES && !any; i++) {
        uint32_t state = atomic_load(&control->file[i].state);
        any = atomic_load(&control->file[i].leaseless) != 0 && state >= PORTUS_FILE_CLAIMED &&
              state <= PORTUS_FILE_TRIMMED;
    }
    if (any)
        live_release_at(at, path, 0);
}
