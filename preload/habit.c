/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * habit.c -- what this program does with a checkpoint when it has written it
 *
 * fsync waits for the disk, and so does a rename over an older file (ext4 starts writing
 * the new one then, and is as slow as the disk). Programs save in the same way each time:
 * what was synced or renamed last time will be again, so the agent lets the disk begin
 * while the program still writes. A wrong guess costs a slower drain, nothing else; so
 * the races that these few words allow do not matter.
 *
 * ext4 starts writing a file when it is renamed over another, or closed after it was
 * emptied (auto_da_alloc), so that a power cut a moment later does not leave neither: the
 * journal lets the rename become durable after the bytes of blocks that are new only. But not
 * if all its blocks are reserved, as ours are: so we do it ourselves, here and in the agent, and
 * here wait until they are written.
 */
#include "habit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/hash.h"
#include "shim.h"

#define REMEMBERED 256 /* files */
#define PATHS 8

static struct {
    _Atomic uint64_t inode, path;
} captured[REMEMBERED];                   /* lately */
static _Atomic uint64_t replacing[PATHS]; /* paths of files that then took another's place */
static _Atomic uint32_t captures, replacings;
static _Atomic bool syncs;

bool habit_hurries(const char *path, uint64_t inode)
{
    uint64_t hash = portus_hash(PORTUS_HASH_EMPTY, path, strlen(path));
    unsigned place = atomic_fetch_add(&captures, 1) % REMEMBERED;

    atomic_store(&captured[place].path, hash);
    atomic_store(&captured[place].inode, inode);
    if (shim.env.close == PORTUS_CLOSE_DURABLE || atomic_load(&syncs))
        return true;
    for (unsigned i = 0; i < PATHS; i++)
        if (atomic_load(&replacing[i]) == hash)
            return true;
    return false;
}

void habit_closed(bool synced)
{
    atomic_store(&syncs, synced);
}

static void learn(uint64_t path, bool replaces)
{
    for (unsigned i = 0; i < PATHS; i++)
        if (atomic_load(&replacing[i]) == path) {
            if (!replaces)
                atomic_store(&replacing[i], 0);
            return;
        }
    if (replaces)
        atomic_store(&replacing[atomic_fetch_add(&replacings, 1) % PATHS], path);
}

/*
 * Errors stay for the program's own fsync: a range's are not marked as seen. Closing it would
 * drop the locks that the program has on it: see habit_locked.
 */
static void write_out(int at, const char *path)
{
    const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    int fd = (int)syscall(SYS_openat, at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    struct statfs status;
    bool ext4;

    if (fd < 0)
        return;
    ext4 = fstatfs(fd, &status) == 0 && status.f_type == EXT4_SUPER_MAGIC;
    syscall(SYS_sync_file_range, fd, 0l, 0l, SYNC_FILE_RANGE_WRITE | (ext4 ? wait : 0));
    syscall(SYS_close, fd);
}

void habit_locked(uint64_t inode)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (atomic_load(&captured[i].inode) == inode)
            atomic_store(&captured[i].inode, 0);
}

void habit_rename(int from_at, const char *from, int to_at, const char *to)
{
    struct statx source, target;
    int saved = errno;
    bool replaces;

    if (!atomic_load(&shim.connected) || !shim_own() || shim.env.order == PORTUS_ORDER_RELAXED ||
        syscall(SYS_statx, from_at, from, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO, &source) !=
            0 ||
        !S_ISREG(source.stx_mode))
        goto done;
    for (unsigned i = 0; i < REMEMBERED; i++) {
        if (atomic_load(&captured[i].inode) != source.stx_ino)
            continue;
        replaces = syscall(SYS_statx, to_at, to, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &target) == 0 &&
                   S_ISREG(target.stx_mode);
        learn(atomic_load(&captured[i].path), replaces);
        if (replaces)
            write_out(from_at, from);
        break;
    }
done:
    errno = saved;
}
