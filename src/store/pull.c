/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.c -- drafts of files that are being saved, filled record by record
 *
 * Where the records come from it does not know: a ring on this machine (rings.c), or on another
 * one (reel.c). What was read of a record that changed meanwhile is never committed: the agent
 * gives the draft up.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "store/hand.h"
#include "store/pull.h"

#define DRAFTS 4096
#define DRAFTS_USER 512 /* where strangers come, who share the descriptors that there are */
#define LISTED 8192     /* bytes of a list of one file */
#define SHARE_STEP (16ull << 20)
#define LANDS (256u << 10) /* bytes of a record that may come straight into the pool, at least */

struct draft {
    struct draft *next;
    uint32_t peer, serial, id;
    uint32_t ring, file;
    uint64_t from, to; /* records between are its, if they say so */
    struct pulled pulled;
    uint64_t written, room; /* bytes; and for how many room was made in the user's share */
    int name;               /* the file, O_PATH; -1: it is on another machine */
    char path[PATH_MAX + 1];
};

static struct draft *drafts;

/* Whether one user has as many as there may be: nobody else's are fewer for it. */
static bool many_drafts(const struct store *store, uint32_t peer)
{
    unsigned count = 0, most = store->strangers ? DRAFTS_USER : DRAFTS;

    for (const struct draft *draft = drafts; draft != NULL; draft = draft->next)
        count += store->peer[draft->peer].uid == store->peer[peer].uid;
    return count >= most;
}

void pulled_free(struct pulled *pulled)
{
    pool_drop(pulled->draft);
    pulled->draft = NULL;
    ranges_free(&pulled->ranges);
}

static void drop(struct draft **at)
{
    struct draft *draft = *at;

    *at = draft->next;
    pulled_free(&draft->pulled);
    if (draft->name >= 0)
        close(draft->name);
    free(draft);
}

static struct draft **find(uint32_t peer, uint32_t serial, uint32_t id)
{
    struct draft **at = &drafts;

    while (*at != NULL && ((*at)->peer != peer || (*at)->serial != serial || (*at)->id != id))
        at = &(*at)->next;
    return at;
}

void pull_drop(uint32_t peer, uint32_t serial, uint32_t id)
{
    struct draft **at = find(peer, serial, id);

    if (*at != NULL)
        drop(at);
}

bool pull_take(uint32_t peer, uint32_t serial, uint32_t id, struct pulled *pulled)
{
    struct draft **at = find(peer, serial, id), *draft = *at;

    if (draft == NULL)
        return false;
    *at = draft->next;
    *pulled = draft->pulled;
    if (draft->name >= 0)
        close(draft->name);
    free(draft);
    return true;
}

static int seal(struct store *store, struct draft *draft, const struct far_name *name,
                uint64_t size, int64_t time, uint64_t *number)
{
    struct pool_attributes attributes;
    struct pool_draft *whole = draft->pulled.draft;
    uint32_t uid = store->peer[draft->peer].uid;
    struct range gap;
    struct stat status;
    int error;

    if (ranges_gap(&draft->pulled.ranges, 0, size, &gap))
        return -EAGAIN;
    if (name != NULL) {
        if (memcmp(&name->key, &draft->pulled.key, sizeof(name->key)) != 0)
            return -ESTALE;
        status = name->status;
        strcpy(draft->path, name->path);
        error = status.st_nlink == 0 ? -ENOENT : 0;
    } else {
        error = hand_stat(uid, draft->name, &status);
        if (error == -ETIMEDOUT)
            draft->name = -1; /* it is not ours any more */
        if (error != 0)
            return error;
        /* A name is no right to the file: what stands for it, its owner has saved. */
        if (store->shared && (!S_ISREG(status.st_mode) || (status.st_uid != uid && uid != 0)))
            return -EPERM;
        error = status.st_nlink == 0
                    ? -ENOENT
                    : store_path(store, draft->name, draft->path, sizeof(draft->path));
    }
    if (error != 0)
        return error;
    attributes = store_attributes(&status, draft->path, store->peer[draft->peer].job);
    attributes.size = size;
    attributes.mtime = time;
    attributes.early = true;
    draft->pulled.draft = NULL; /* gone, whatever happens */
    return pool_commit(whole, &attributes, number);
}

void pull_seal(struct store *store, uint32_t peer, const struct portus_message *message,
               const struct far_name *name)
{
    struct draft **at = find(peer, store->serial[peer], message->value);
    uint32_t uid = store->peer[peer].uid;
    uint64_t number = 0;
    int error = -ENOENT;

    if (*at != NULL) {
        error = seal(store, *at, name, message->size, message->time, &number);
        if (error == 0)
            log_debug("commit %llu: %llu bytes, before they are drained",
                      (unsigned long long)number, (unsigned long long)message->size);
        if (error != -EAGAIN)
            drop(at);
    }
    store_answer(store, peer, store->serial[peer], message->value, error, number);
    if (error == -ETIMEDOUT && name == NULL)
        store_shun(store, uid);
}

/* What the agent says that the file is, in a list of one: of its own versions it may say so. When
 * the file is whole it is asked itself (take.c). */
static int said_key(int fd, struct pool_key *key)
{
    const struct listing_entry *entry;
    struct listing listing;
    struct stat status;
    const char *path;
    size_t at = 0;
    int error;

    if (!listing_sealed(fd) || fstat(fd, &status) < 0 || status.st_size > LISTED)
        return -EPROTO;
    error = listing_load(&listing, fd);
    if (error != 0)
        return error;
    entry = listing_next(&listing, &at, &path);
    if (entry != NULL)
        *key = store_key_of(entry, 0);
    listing_free(&listing);
    return entry != NULL ? 0 : -EPROTO;
}

/* Of a draft whose file is on this machine. A name (O_PATH) is closed without asking its file
 * system; what else may be asked, the user's own may answer never. */
static int name_draft(struct store *store, struct draft *draft, uint32_t uid, const int *fds,
                      unsigned count)
{
    int error = 0;

    if ((fcntl(fds[0], F_GETFL) & O_PATH) == 0)
        return -EPROTO;
    draft->name = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
    if (draft->name < 0)
        return -errno;
    if (!store->shared)
        error = store_key(draft->name, &draft->pulled.key);
    else
        error = count == 2 ? said_key(fds[1], &draft->pulled.key) : -ENOENT;
    draft->pulled.key.owner = uid;
    return error != 0 ? error : store_path(store, draft->name, draft->path, sizeof(draft->path));
}

int pull_draft(struct store *store, uint32_t peer, const struct portus_message *message,
               const int *fds, unsigned count, const struct far_name *name)
{
    uint32_t ring = message->flags >> 16, file = message->flags & 0xffff;
    struct draft *draft;
    int error = 0;

    /* From here on the number is another file's. */
    for (draft = drafts; draft != NULL; draft = draft->next)
        if (draft->peer == peer && draft->serial == store->serial[peer] && draft->ring == ring &&
            draft->file == file && draft->to > message->size)
            draft->to = message->size;
    if ((count == 0 && name == NULL) || many_drafts(store, peer))
        return 0; /* it is copied whole */
    draft = calloc(1, sizeof(*draft));
    if (draft == NULL)
        return 0;
    draft->name = -1;
    if (name != NULL) {
        draft->pulled.key = name->key;
        strcpy(draft->path, name->path);
    } else {
        error = name_draft(store, draft, store->peer[peer].uid, fds, count);
    }
    if (error == 0)
        error = pool_begin(store->pool, &draft->pulled.key, &draft->pulled.draft);
    if (error != 0) {
        log_debug("a draft cannot begin: %s", strerror(-error));
        if (draft->name >= 0)
            close(draft->name);
        free(draft);
        return error == -EPROTO ? error : 0;
    }
    draft->peer = peer;
    draft->serial = store->serial[peer];
    draft->id = message->value;
    draft->ring = ring;
    draft->file = file;
    draft->from = message->size;
    draft->to = UINT64_MAX;
    draft->next = drafts;
    drafts = draft;
    return 0;
}

void pull_gone(uint32_t peer, uint32_t serial)
{
    for (struct draft **at = &drafts; *at != NULL;)
        if ((*at)->peer == peer && (*at)->serial == serial)
            drop(at);
        else
            at = &(*at)->next;
}

void pull_spoil(uint32_t peer, uint32_t serial, uint32_t ring)
{
    for (struct draft **at = &drafts; *at != NULL;)
        if ((*at)->peer == peer && (*at)->serial == serial && (*at)->ring == ring)
            drop(at);
        else
            at = &(*at)->next;
}

static struct draft *draft_of(uint32_t peer, uint32_t serial, uint32_t ring, uint32_t file,
                              uint64_t sequence)
{
    for (struct draft *draft = drafts; draft != NULL; draft = draft->next)
        if (draft->ring == ring && draft->file == file && draft->from <= sequence &&
            sequence < draft->to && draft->peer == peer && draft->serial == serial)
            return draft;
    return NULL;
}

/* That so many more are in its user's share. */
static int share_has_room(struct store *store, struct draft *draft, uint32_t length)
{
    const struct pool_share share = store_share(store, store->peer[draft->peer].uid);
    const char *job = store_job(store->peer[draft->peer].job);
    uint64_t step = SHARE_STEP;
    int error;

    /* In steps, each of which counts for the share at once: not at every record. */
    if (share.everyone || draft->written + length <= draft->room)
        return 0;
    error = store_room(store, &share, draft->path, job, step);
    if (error == -ENOSPC)
        error = store_room(store, &share, draft->path, job, step = length);
    draft->room = draft->written + step;
    if (error == 0)
        pool_expect(draft->pulled.draft, step);
    return error;
}

bool pull_wanted(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence,
                 struct pool_landing **landing)
{
    struct draft *draft = draft_of(peer, store->serial[peer], ring, record->file, sequence);

    if (landing != NULL)
        *landing = NULL;
    if (draft == NULL)
        return false;
    /* Small ones are not worth an extent of their own. */
    if (landing != NULL && far_lands(store->peer[peer].far) && record->length >= LANDS &&
        share_has_room(store, draft, record->length) == 0 &&
        pool_land(store->pool, store->peer[peer].uid, record->length, landing) == 0)
        draft->written += record->length;
    return true;
}

static int write_draft(struct store *store, struct draft *draft, uint64_t offset, const void *data,
                       uint32_t length)
{
    const struct store_peer *peer = &store->peer[draft->peer];
    int error = share_has_room(store, draft, length);

    draft->written += length;
    if (error == 0)
        error = store_write(store, peer->uid, draft->path, peer->job, draft->pulled.draft, offset,
                            data, length);
    if (error == 0)
        error = ranges_add(&draft->pulled.ranges, offset, offset + length);
    return error;
}

/* Of no use any more. */
static void give_up(const struct draft *draft, int error)
{
    log_debug("%s: is read from its file: %s", draft->path, strerror(-error));
    pull_drop(draft->peer, draft->serial, draft->id);
}

static void keep(struct store *store, struct draft *draft, const struct portus_record *record,
                 const void *data)
{
    int error = write_draft(store, draft, record->offset, data, record->length);

    if (error != 0)
        give_up(draft, error);
}

void pull_record(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence, const void *bytes)
{
    struct draft *draft = draft_of(peer, store->serial[peer], ring, record->file, sequence);

    if (draft != NULL)
        keep(store, draft, record, bytes);
}

void pull_landed(struct store *store, uint32_t peer, uint32_t ring,
                 const struct portus_record *record, uint64_t sequence,
                 struct pool_landing *landing)
{
    struct draft *draft = draft_of(peer, store->serial[peer], ring, record->file, sequence);
    int error;

    if (draft == NULL) {
        pool_land_drop(landing);
        return;
    }
    error = pool_landed(landing, draft->pulled.draft, record->offset);
    if (error == 0)
        error = ranges_add(&draft->pulled.ranges, record->offset, record->offset + record->length);
    if (error != 0)
        give_up(draft, error);
}
