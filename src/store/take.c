/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * take.c -- copies a file that is whole into the pool, and commits it
 *
 * The agent has drained the file and holds a read lease on the very description that
 * it passed, so nobody can have opened the file for writing while the lease is there.
 * It is asked for again when all is copied: if it is still held, then the bytes are
 * those of one moment, and the times and the size that fstat says are theirs.
 *
 * What was pulled while it was saved (pull.c) is in the draft already; only the rest is
 * copied. In pieces, so that signals and other peers are heard meanwhile. The piece goes
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
#include "portus/layout.h"
#include "store/pull.h"

#define PIECE (1u << 20)
#define TICK_NS 10000000 /* 100 Hz, the slowest */
#define PIECES 16        /* a turn */

static struct {
    bool busy;
    struct store_file file;
    struct pulled pulled; /* what the draft has already, and the draft */
    struct stat status;
    uint64_t offset;  /* all before it is in the draft */
    uint64_t copied;  /* bytes, from the file */
    uint64_t renewed; /* it was committed already: the number that it has now */
    char path[PATH_MAX + 1];
} now;

static void end(struct store *store, int error, uint64_t number)
{
    pool_drop(now.pulled.draft);
    ranges_free(&now.pulled.ranges);
    now.pulled.draft = NULL;
    close(now.file.fd);
    store_answer(store, now.file.peer, now.file.serial, now.file.id, error, number);
    now.busy = false;
}

/* Committed while it was drained; with it a set of files may be whole, as they stand. */
static int renew(struct store *store, const struct pool_key *key)
{
    now.offset = (uint64_t)now.status.st_size;
    if (!now.file.last || !store_whole(store, now.path))
        return 0;
    return pool_rename(store->pool, key, now.path, POOL_SETTLED, &now.renewed);
}

static int begin(struct store *store)
{
    struct pool_key key;
    int error;

    now.offset = now.copied = 0;
    now.renewed = 0;
    if (now.file.pulled)
        pull_take(now.file.peer, now.file.serial, now.file.id, &now.pulled);
    if (fstat(now.file.fd, &now.status) < 0)
        return -errno;
    if (!S_ISREG(now.status.st_mode) || now.status.st_nlink == 0)
        return -ENOENT; /* deleted already */
    error = store_key(now.file.fd, &key);
    if (error != 0)
        return error;
    error = store_path(now.file.fd, now.path, sizeof(now.path));
    if (error != 0)
        return error;
    if (now.file.kept)
        return renew(store, &key);
    if (now.pulled.draft != NULL && memcmp(&key, &now.pulled.key, sizeof(key)) == 0)
        return 0;
    pool_drop(now.pulled.draft);
    ranges_free(&now.pulled.ranges);
    now.pulled.draft = NULL;
    error = store_room(store, now.path, store_job(now.file.job), (uint64_t)now.status.st_size);
    return error != 0 ? error : pool_begin(store->pool, &key, &now.pulled.draft);
}

static int copy(struct store *store)
{
    static char piece[PIECE] __attribute__((aligned(4096)));
    struct range gap;
    ssize_t length;
    int error;

    if (!ranges_gap(&now.pulled.ranges, now.offset, (uint64_t)now.status.st_size, &gap)) {
        now.offset = (uint64_t)now.status.st_size;
        return 0;
    }
    length = pread(now.file.fd, piece,
                   gap.to - gap.from < sizeof(piece) ? gap.to - gap.from : sizeof(piece),
                   (off_t)gap.from);
    if (length <= 0)
        return length < 0 ? -errno : -ESTALE; /* it has become shorter */
    error = pool_write(now.pulled.draft, gap.from, piece, (size_t)length);
    if (error == -ENOSPC && now.pulled.ranges.count != 0) {
        error = store_room(store, now.path, store_job(now.file.job), (uint64_t)length);
        if (error == 0)
            error = pool_write(now.pulled.draft, gap.from, piece, (size_t)length);
    }
    if (error == 0) {
        now.offset = gap.from + (uint64_t)length;
        now.copied += (uint64_t)length;
    }
    return error;
}

static int commit(struct store *store, uint64_t *number)
{
    struct pool_attributes attributes = {.path = now.path, .job = store_job(now.file.job)};
    struct timespec clock;
    struct stat status;
    struct pool_draft *draft = now.pulled.draft;
    bool whole = fcntl(now.file.fd, F_GETLEASE) == F_RDLCK;
    int error;

    if (fstat(now.file.fd, &status) < 0)
        return -errno;
    if (!whole || status.st_size != now.status.st_size)
        return -ESTALE;
    if (status.st_nlink == 0)
        return -ENOENT;
    error = store_path(now.file.fd, now.path, sizeof(now.path));
    if (error != 0)
        return error;
    attributes.size = (uint64_t)status.st_size;
    attributes.mtime = store_nanoseconds(&status.st_mtim);
    attributes.ctime = store_nanoseconds(&status.st_ctim);
    attributes.mode = status.st_mode;
    attributes.uid = status.st_uid;
    attributes.gid = status.st_gid;
    /* Until the clock of the file system has moved on: a later change has another ctime. */
    while (attributes.size >= PORTUS_POOL_LENDS && clock_gettime(CLOCK_REALTIME, &clock) == 0 &&
           store_nanoseconds(&clock) - attributes.ctime >= 0 &&
           store_nanoseconds(&clock) - attributes.ctime < TICK_NS)
        usleep(1000);
    attributes.settled = now.file.last && store_whole(store, now.path);
    now.pulled.draft = NULL; /* gone, whatever happens */
    return pool_commit(draft, &attributes, number);
}

bool store_take(struct store *store)
{
    uint64_t number = 0;
    int error = 0;

    /* Who waits in open is not to wait for an agent that is dead or a store that is slow. */
    for (uint64_t i = store->taken; i < store->queued; i++) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];
        if (file->fd < 0 || fcntl(file->fd, F_GETLEASE) == F_RDLCK)
            continue;
        close(file->fd);
        file->fd = -1;
        store_answer(store, file->peer, file->serial, file->id, -ESTALE, 0);
    }
    if (now.busy && fcntl(now.file.fd, F_GETLEASE) != F_RDLCK) {
        end(store, -ESTALE, 0);
        return true;
    }
    if (!now.busy) {
        if (store->queued == store->taken)
            return false;
        now.file = store->queue[store->taken++ % STORE_QUEUE];
        if (now.file.fd < 0)
            return true;
        now.busy = true;
        error = begin(store);
    }
    for (unsigned i = 0; i < PIECES && error == 0 && now.offset < (uint64_t)now.status.st_size; i++)
        error = copy(store);
    if (error == 0 && now.offset < (uint64_t)now.status.st_size)
        return true;
    if (error == 0 && now.file.kept) {
        end(store, 0, now.renewed);
        return true;
    }
    if (error == 0)
        error = commit(store, &number);
    if (error == 0)
        log_debug("commit %llu: %llu bytes, %llu of them from the file", (unsigned long long)number,
                  (unsigned long long)now.status.st_size, (unsigned long long)now.copied);
    end(store, error, number);
    return true;
}

void store_cancel(struct store *store, uint32_t peer, uint32_t id)
{
    uint32_t serial = store->serial[peer];

    if (now.busy && now.file.peer == peer && now.file.serial == serial && now.file.id == id) {
        end(store, -ECANCELED, 0);
        return;
    }
    for (uint64_t i = store->taken; i < store->queued; i++) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];
        if (file->fd < 0 || file->peer != peer || file->serial != serial || file->id != id)
            continue;
        close(file->fd);
        file->fd = -1;
        store_answer(store, peer, serial, id, -ECANCELED, 0);
        return;
    }
}
