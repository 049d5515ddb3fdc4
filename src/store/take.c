/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * take.c -- copies a file that is whole into the pool, and commits it
 *
 * The agent has drained the file and holds a read lease on the very description that
 * it passed, so nobody can have opened the file for writing while the lease is there.
 * It is asked for again when all is copied: if it is still held, then the bytes are
 * those of one moment, and the times and the size that fstat says are theirs.
 *
 * In pieces, so that signals and other peers are heard meanwhile. The piece goes
 * through a buffer that stays in the processor's cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "store/state.h"

#define PIECE (1u << 20)
#define PIECES 16 /* a turn */
#define BROKEN 64 /* directories whose set is known to be incomplete */

static struct {
    bool busy;
    struct store_file file;
    struct pool_draft *draft;
    struct pool_key key;
    struct stat status;
    uint64_t offset;
} now;

/* A set of files with a hole in it is no state to go back to. */
static struct {
    uint64_t job, directory;
} broken[BROKEN];
static unsigned broken_next;

static bool is_broken(bool forget)
{
    bool found = false;

    for (unsigned i = 0; i < BROKEN; i++)
        if (broken[i].directory == now.file.directory && broken[i].job == now.file.job &&
            broken[i].directory != 0) {
            found = true;
            if (forget)
                broken[i].directory = 0;
        }
    return found;
}

static void note_broken(void)
{
    if (is_broken(false))
        return;
    broken[broken_next].job = now.file.job;
    broken[broken_next].directory = now.file.directory;
    broken_next = (broken_next + 1) % BROKEN;
}

static int64_t nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Where the file is now. 0 or a negative errno. */
static int path_of(int fd, char *path, size_t size)
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

static void end(struct store *store, int error, uint64_t number)
{
    if (now.draft != NULL)
        pool_drop(now.draft);
    now.draft = NULL;
    if (error != 0)
        note_broken();
    close(now.file.fd);
    store_answer(store, now.file.peer, now.file.serial, now.file.id, error, number);
    now.busy = false;
}

static int begin(struct store *store)
{
    struct pool_state state;
    int64_t room;
    int error;

    if (fstat(now.file.fd, &now.status) < 0)
        return -errno;
    if (!S_ISREG(now.status.st_mode) || now.status.st_nlink == 0)
        return -ENOENT; /* deleted already */
    error = store_key(now.file.fd, &now.key);
    if (error != 0)
        return error;
    pool_look(store->pool, &state);
    if (state.free < (uint64_t)now.status.st_size) {
        room = pool_make_room(store->pool, (uint64_t)now.status.st_size, store->keep);
        if (room < 0)
            return (int)room;
        if (room < now.status.st_size)
            return -ENOSPC;
    }
    now.offset = 0;
    return pool_begin(store->pool, &now.key, &now.draft);
}

static int copy(void)
{
    static char piece[PIECE] __attribute__((aligned(4096)));
    uint64_t left = (uint64_t)now.status.st_size - now.offset;
    ssize_t length =
        pread(now.file.fd, piece, left < sizeof(piece) ? left : sizeof(piece), (off_t)now.offset);
    int error;

    if (length <= 0)
        return length < 0 ? -errno : -ESTALE; /* it has become shorter */
    error = pool_write(now.draft, now.offset, piece, (size_t)length);
    if (error == 0)
        now.offset += (uint64_t)length;
    return error;
}

static int commit(struct store *store, uint64_t *number)
{
    static char path[PATH_MAX + 1];
    char job[24];
    struct pool_attributes attributes = {.path = path, .job = job};
    struct stat status;
    struct pool_draft *draft = now.draft;
    bool whole = fcntl(now.file.fd, F_GETLEASE) == F_RDLCK;
    int error;

    if (fstat(now.file.fd, &status) < 0)
        return -errno;
    if (!whole || status.st_size != now.status.st_size ||
        nanoseconds(&status.st_mtim) != nanoseconds(&now.status.st_mtim))
        return -ESTALE;
    if (status.st_nlink == 0)
        return -ENOENT;
    error = path_of(now.file.fd, path, sizeof(path));
    if (error != 0)
        return error;
    snprintf(job, sizeof(job), "%016llx", (unsigned long long)now.file.job);
    attributes.size = (uint64_t)status.st_size;
    attributes.mtime = nanoseconds(&status.st_mtim);
    attributes.ctime = nanoseconds(&status.st_ctim);
    attributes.mode = status.st_mode;
    attributes.uid = status.st_uid;
    attributes.gid = status.st_gid;
    attributes.settled = now.file.last && !is_broken(true);
    now.draft = NULL; /* gone, whatever happens */
    return pool_commit(draft, &attributes, number);
}

bool store_take(struct store *store)
{
    uint64_t number = 0;
    int error = 0;

    if (!now.busy) {
        if (store->queued == store->taken)
            return false;
        now.file = store->queue[store->taken++ % STORE_QUEUE];
        now.busy = true;
        error = begin(store);
    }
    for (unsigned i = 0; i < PIECES && error == 0 && now.offset < (uint64_t)now.status.st_size; i++)
        error = copy();
    if (error == 0 && now.offset < (uint64_t)now.status.st_size)
        return true;
    if (error == 0)
        error = commit(store, &number);
    if (error == 0)
        log_debug("commit %llu: %llu bytes", (unsigned long long)number,
                  (unsigned long long)now.status.st_size);
    end(store, error, number);
    return true;
}
