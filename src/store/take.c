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
 * through a buffer that stays in the processor's cache. Where the store is shared some users'
 * files are copied by turns, one of each, so that a large one does not keep others waiting.
 *
 * A file of another machine is asked for piece by piece, some ahead; that its lease was held
 * to the end its client says when all is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "common/trace.h"
#include "portus/layout.h"
#include "store/hand.h"
#include "store/metrics.h"
#include "store/pull.h"

#define PIECE (1u << 20)
#define TICK_NS 10000000 /* 100 Hz, the slowest */
#define PIECES 16        /* a turn */

struct copying {
    struct copying *next;
    bool begun;
    struct store_file file;
    struct pulled pulled; /* what the draft has already, and the draft */
    struct stat status;
    uint64_t offset; /* all before it is in the draft */
    uint64_t copied; /* bytes, from the file */
    uint64_t asked;  /* all before it is asked for, of a file of another machine */
    unsigned pieces; /* that have not come yet */
    int failed;
    uint64_t since;   /* for the timeline, ns */
    uint64_t renewed; /* it was committed already: the number that it has now */
    char path[PATH_MAX + 1];
};

static struct copying *copies; /* one, or one of each user */

/* A listing is memory: to close it takes no time. */
static void close_listing(struct store_file *file)
{
    if (file->listed >= 0)
        close(file->listed);
    file->listed = -1;
}

static void release(struct copying *now)
{
    struct copying **at = &copies;

    while (*at != now)
        at = &(*at)->next;
    *at = now->next;
    free(now);
}

/* -ETIMEDOUT: the descriptor is not ours any more. */
static void end(struct store *store, struct copying *now, int error, uint64_t number)
{
    uint32_t uid = now->file.uid;
    bool shuns;

    pulled_free(&now->pulled);
    metrics_taken(error, (uint64_t)now->status.st_size);
    close_listing(&now->file);
    store_answer(store, now->file.peer, now->file.serial, now->file.id, error, number);
    shuns =
        (error == -ETIMEDOUT && now->file.far == NULL) || origin_close(&now->file) == -ETIMEDOUT;
    release(now);
    if (shuns)
        store_shun(store, uid);
}

/* Waits until the clock of the file system has moved on: a later change has another ctime. */
static void outlast(const struct copying *now, const struct pool_attributes *attributes)
{
    struct timespec clock;

    while (now->file.far == NULL && attributes->size >= PORTUS_POOL_LENDS &&
           clock_gettime(CLOCK_REALTIME, &clock) == 0 &&
           portus_nanoseconds(&clock) - attributes->ctime >= 0 &&
           portus_nanoseconds(&clock) - attributes->ctime < TICK_NS)
        usleep(1000);
}

/* Committed while it was drained; with it a set of files may be whole, as they stand. */
static int renew(struct store *store, struct copying *now, const struct pool_key *key)
{
    const struct pool_share share = store_share(store, now->file.uid);
    struct pool_attributes attributes = store_attributes(&now->status, now->path, now->file.job);
    int error;

    if (!origin_held(&now->file))
        return -ESTALE;
    outlast(now, &attributes);
    now->offset = attributes.size;
    attributes.settled = now->file.last && store_whole(store, &share, now->path, now->file.listed);
    error = pool_drained(store->pool, key, &attributes, &now->renewed);
    return error == -ENOSPC ? 0 : error; /* it is kept, as it is */
}

/* Of its bytes those that the draft lacks. */
static uint64_t missing(const struct copying *now)
{
    uint64_t size = (uint64_t)now->status.st_size, bytes = 0;
    struct range gap;

    for (uint64_t at = 0; ranges_gap(&now->pulled.ranges, at, size, &gap); at = gap.to)
        bytes += gap.to - gap.from;
    return bytes;
}

static int begin(struct store *store, struct copying *now)
{
    const struct pool_share share = store_share(store, now->file.uid);
    struct pool_key key;
    uint64_t bytes;
    int error;

    now->begun = true;
    if (now->file.pulled)
        pull_take(now->file.peer, now->file.serial, now->file.id, &now->pulled);
    error = origin_stat(&now->file, &now->status);
    if (error != 0)
        return error;
    if (!S_ISREG(now->status.st_mode) || now->status.st_nlink == 0)
        return -ENOENT; /* deleted already */
    error = origin_key(&now->file, &key);
    if (error != 0)
        return error;
    error = origin_path(store, &now->file, now->path, sizeof(now->path));
    if (error != 0)
        return error;
    if (now->file.kept)
        return renew(store, now, &key);
    if (now->pulled.draft == NULL || memcmp(&key, &now->pulled.key, sizeof(key)) != 0)
        pulled_free(&now->pulled);
    bytes = missing(now);
    if (now->pulled.draft != NULL)
        pool_expect(now->pulled.draft, 0); /* that was for its pulling */
    if (now->pulled.draft == NULL || (!share.everyone && bytes > 0))
        error = store_room(store, &share, now->path, store_job(now->file.job), bytes);
    if (error == 0 && now->pulled.draft == NULL)
        error = pool_begin(store->pool, &key, &now->pulled.draft);
    if (error == 0)
        pool_expect(now->pulled.draft, bytes);
    return error;
}

int store_write(struct store *store, uint32_t uid, const char *path, uint64_t job,
                struct pool_draft *draft, uint64_t offset, const void *data, size_t length)
{
    const struct pool_share share = store_share(store, uid);
    int error = pool_write(draft, offset, data, length);

    if (error == -ENOSPC) {
        error = store_room(store, &share, path, store_job(job), length);
        if (error == 0)
            error = pool_write(draft, offset, data, length);
    }
    return error;
}

/* Bytes of the file, in the draft. */
static int put(struct store *store, struct copying *now, uint64_t offset, const void *piece,
               size_t length)
{
    int error = store_write(store, now->file.uid, now->path, now->file.job, now->pulled.draft,
                            offset, piece, length);

    if (error == 0) {
        now->offset = offset + length;
        now->copied += length;
    }
    return error;
}

/* A piece has come from another machine. */
static void got(void *owner, uint64_t cookie, uint64_t offset, const void *bytes, uint32_t length,
                int error, struct pool_landing *landing)
{
    struct copying *now = owner;

    now->pieces--;
    if (now->failed == 0)
        now->failed = bytes == NULL
                          ? error
                          : put(now->file.far->source->far->store, now, offset, bytes, length);
}

/* Asks for as much as may be under way. -EAGAIN: it has not come yet. */
static int fetch(struct copying *now)
{
    struct far_source *source = now->file.far->source;
    uint64_t size = (uint64_t)now->status.st_size;
    struct range gap;
    int error = now->failed;

    source->got = got;
    source->owner = now;
    while (error == 0 && now->asked < size) {
        if (!ranges_gap(&now->pulled.ranges, now->asked, size, &gap)) {
            now->asked = size;
            break;
        }
        if (gap.to - gap.from > PIECE)
            gap.to = gap.from + PIECE;
        error = far_source_read(source, gap.from, (uint32_t)(gap.to - gap.from), 0, NULL);
        if (error == 0) {
            now->asked = gap.to;
            now->pieces++;
        }
    }
    if (error == 0 && now->pieces == 0) {
        now->offset = size;
        return 0;
    }
    return error != 0 ? error : -EAGAIN;
}

static int copy(struct store *store, struct copying *now)
{
    struct range gap;
    const char *piece;
    size_t length;
    int error;

    if (!ranges_gap(&now->pulled.ranges, now->offset, (uint64_t)now->status.st_size, &gap)) {
        now->offset = (uint64_t)now->status.st_size;
        return 0;
    }
    error = hand_read(now->file.uid, now->file.fd, gap.from,
                      gap.to - gap.from < PIECE ? gap.to - gap.from : PIECE, &piece, &length);
    if (error != 0)
        return error;
    if (length == 0)
        return -ESTALE; /* it has become shorter */
    return put(store, now, gap.from, piece, length);
}

struct pool_attributes store_attributes(const struct stat *status, const char *path, uint64_t job)
{
    return (struct pool_attributes){
        .path = path,
        .job = store_job(job),
        .size = (uint64_t)status->st_size,
        .mtime = portus_nanoseconds(&status->st_mtim),
        .ctime = portus_nanoseconds(&status->st_ctim),
        .mode = status->st_mode,
        .uid = status->st_uid,
        .gid = status->st_gid,
    };
}

static int commit(struct store *store, struct copying *now, uint64_t *number)
{
    const struct pool_share share = store_share(store, now->file.uid);
    struct pool_attributes attributes;
    struct stat status;
    struct pool_draft *draft = now->pulled.draft;
    int error = now->file.far != NULL ? far_file_check(now->file.far) : 0;

    if (error == 0)
        error = origin_stat(&now->file, &status);
    if (error != 0)
        return error;
    if (!origin_held(&now->file) || status.st_size != now->status.st_size)
        return -ESTALE;
    if (status.st_nlink == 0)
        return -ENOENT;
    error = origin_path(store, &now->file, now->path, sizeof(now->path));
    if (error != 0)
        return error;
    attributes = store_attributes(&status, now->path, now->file.job);
    outlast(now, &attributes);
    attributes.settled = now->file.last && store_whole(store, &share, now->path, now->file.listed);
    now->pulled.draft = NULL; /* gone, whatever happens */
    return pool_commit(draft, &attributes, number);
}

/* A file that was in the queue is not wanted any more, or cannot be had. */
static void drop(struct store *store, struct store_file *file, int error)
{
    close_listing(file);
    if (file->pulled)
        pull_drop(file->peer, file->serial, file->id);
    store_answer(store, file->peer, file->serial, file->id, error, 0);
    if (origin_close(file) == -ETIMEDOUT)
        store_shun(store, file->uid);
}

/* Where a user's next file may be copied; NULL: not now. */
static struct copying *place_for(const struct store *store, uint32_t uid)
{
    struct copying *place;

    for (const struct copying *now = copies; now != NULL; now = now->next)
        if (!store->shared || now->file.uid == uid)
            return NULL;
    place = calloc(1, sizeof(*place));
    if (place == NULL)
        return NULL;
    place->next = copies;
    copies = place;
    return place;
}

static void fill(struct store *store)
{
    for (uint64_t i = store->taken; i < store->queued; i++) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];
        struct copying *place = origin_is(file) ? place_for(store, file->uid) : NULL;

        if (place == NULL)
            continue;
        place->file = *file;
        place->since = portus_trace_on() ? portus_now() : 0;
        file->fd = -1;
        file->far = NULL;
    }
    while (store->taken < store->queued && !origin_is(&store->queue[store->taken % STORE_QUEUE]))
        store->taken++;
}

/* Another user's may overlap it: so it has an id. */
static void trace_commit(const struct copying *now, uint64_t number)
{
    struct portus_event event = {PORTUS_TRACE_BEGIN,  "store",          "commit", portus_trace_id(),
                                 .began = now->since, .path = now->path};

    portus_trace(&event, "\"commit\":%llu", (unsigned long long)number);
    event.phase = PORTUS_TRACE_END;
    event.began = 0;
    portus_trace(&event, "\"bytes\":%llu,\"from_file\":%llu",
                 (unsigned long long)now->status.st_size, (unsigned long long)now->copied);
}

/* At most so many pieces; whether there is more to do now. */
static bool step(struct store *store, struct copying *now, unsigned pieces)
{
    uint64_t number = 0;
    int error = 0;

    if (!origin_held(&now->file)) {
        end(store, now, -ESTALE, 0);
        return true;
    }
    if (!now->begun)
        error = begin(store, now);
    if (error == 0 && now->file.far != NULL && !now->file.kept)
        error = fetch(now);
    for (; pieces > 0 && error == 0 && now->offset < (uint64_t)now->status.st_size; pieces--)
        error = copy(store, now);
    if (error == 0 && now->offset < (uint64_t)now->status.st_size)
        return true;
    if (error == 0 && now->file.kept) {
        end(store, now, 0, now->renewed);
        return true;
    }
    if (error == 0)
        error = commit(store, now, &number);
    if (error == -EAGAIN)
        return false; /* another machine is waited for */
    if (error == 0 && portus_trace_on())
        trace_commit(now, number);
    if (error == 0)
        log_debug("commit %llu: %llu bytes, %llu of them from the file", (unsigned long long)number,
                  (unsigned long long)now->status.st_size, (unsigned long long)now->copied);
    end(store, now, error, number);
    return true;
}

bool store_take(struct store *store)
{
    unsigned count = 0;
    bool more = false;

    /* Who waits in open is not to wait for an agent that is dead or a store that is slow. */
    for (uint64_t i = store->taken; i < store->queued; i++) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];
        if (origin_is(file) && !origin_held(file))
            drop(store, file, -ESTALE);
    }
    fill(store);
    for (const struct copying *now = copies; now != NULL; now = now->next)
        count++;
    /* A step ends a copy, or (a user that is shunned) all of one user, of which there is one. */
    for (struct copying *now = copies, *next; now != NULL; now = next) {
        next = now->next;
        more |= step(store, now, count < PIECES ? PIECES / count : 1);
    }
    return more;
}

bool store_waits(const struct store *store)
{
    return copies != NULL || store->taken < store->queued;
}

void store_cancel(struct store *store, uint32_t peer, uint32_t id)
{
    uint32_t serial = store->serial[peer];

    for (struct copying *now = copies; now != NULL; now = now->next) {
        const struct store_file *file = &now->file;
        if (file->peer == peer && file->serial == serial && file->id == id) {
            end(store, now, -ECANCELED, 0);
            return;
        }
    }
    for (uint64_t i = store->taken; i < store->queued; i++) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];
        if (!origin_is(file) || file->peer != peer || file->serial != serial || file->id != id)
            continue;
        drop(store, file, -ECANCELED);
        return;
    }
}

void store_forget(struct store *store, uint32_t uid)
{
    static int fds[STORE_QUEUE + 1];
    unsigned count = 0;

    for (uint64_t i = store->taken; i < store->queued; i++) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];
        if (file->fd < 0 || file->uid != uid)
            continue;
        fds[count++] = file->fd;
        file->fd = -1;
        close_listing(file);
    }
    for (struct copying *now = copies; now != NULL; now = now->next) {
        if (now->file.uid != uid || now->file.far != NULL)
            continue;
        pulled_free(&now->pulled);
        close_listing(&now->file);
        fds[count++] = now->file.fd;
        release(now);
        break; /* there is one of a user */
    }
    hand_close_all(fds, count);
}

unsigned store_waiting(const struct store *store, uint32_t uid)
{
    unsigned count = 0;

    for (uint64_t i = store->taken; i < store->queued; i++) {
        const struct store_file *file = &store->queue[i % STORE_QUEUE];
        count += origin_is(file) && file->uid == uid;
    }
    return count;
}
