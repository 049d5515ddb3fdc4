/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.c -- copies what a program saves out of its ring into drafts, while it saves
 *
 * An agent passes a session's ring, read-only, and says which records of its log are
 * filled; each is copied into the draft of its file. The agent lets no record be
 * overwritten until it is told that it was copied, or it gives the draft up: what was
 * read of a record that changed meanwhile is never committed.
 *
 * A ring of this user's is mapped; another's is read, as is one that cannot be mapped. Nothing in
 * it is trusted: what makes no sense ends its drafts, and their files are copied whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "portus/ring.h"
#include "store/hand.h"
#include "store/pull.h"

#define RECORDS_A_TURN 16 /* of a ring */
#define ALL_A_TURN 128    /* of all: others are heard meanwhile */
#define RINGS 1024
#define RINGS_USER 256 /* where strangers come, who share the descriptors that there are */
#define DRAFTS 4096
#define DRAFTS_USER 512
#define LISTED 8192 /* bytes of a list of one file */
#define SHARE_STEP (16ull << 20)
#define LANDS (256u << 10) /* bytes of a record that may come straight into the pool, at least */

#define MAPPED (PORTUS_RING_DATA + PORTUS_RING_MAX)

struct ring {
    struct ring *next;
    uint32_t peer, serial, id;
    int fd; /* -1: on another machine, see reel */
    struct reel *reel;
    const uint8_t *base;     /* NULL: it is read */
    uint64_t bytes;          /* that it is known to have */
    uint64_t position, upto; /* records: copied, and to be copied */
    bool asked;
};

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

static struct ring *rings;
static struct draft *drafts;

/* ---- drafts ---- */

/* Whether one user has as many as there may be: nobody else's are fewer for it. */
static bool many_drafts(const struct store *store, uint32_t peer)
{
    unsigned count = 0, most = store->strangers ? DRAFTS_USER : DRAFTS;

    for (const struct draft *draft = drafts; draft != NULL; draft = draft->next)
        count += store->peer[draft->peer].uid == store->peer[peer].uid;
    return count >= most;
}

static bool many_rings(const struct store *store, uint32_t peer)
{
    unsigned count = 0, most = store->strangers ? RINGS_USER : RINGS;

    for (const struct ring *ring = rings; ring != NULL; ring = ring->next)
        count += store->peer[ring->peer].uid == store->peer[peer].uid;
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

/* ---- rings ---- */

static struct ring **find_ring(uint32_t peer, uint32_t serial, uint32_t id)
{
    struct ring **at = &rings;

    while (*at != NULL && ((*at)->peer != peer || (*at)->serial != serial || (*at)->id != id))
        at = &(*at)->next;
    return at;
}

static void close_ring(struct ring **at)
{
    struct ring *ring = *at;

    *at = ring->next;
    if (ring->base != NULL)
        munmap((void *)ring->base, MAPPED);
    if (ring->fd >= 0)
        hand_close_all(&ring->fd, 1); /* it may be the last: then all its memory is freed */
    reel_close(ring->reel);
    free(ring);
}

void pull_gone(uint32_t peer, uint32_t serial)
{
    for (struct draft **at = &drafts; *at != NULL;)
        if ((*at)->peer == peer && (*at)->serial == serial)
            drop(at);
        else
            at = &(*at)->next;
    for (struct ring **at = &rings; *at != NULL;)
        if ((*at)->peer == peer && (*at)->serial == serial)
            close_ring(at);
        else
            at = &(*at)->next;
}

/* Its drafts are of no use. */
static void spoil(const struct ring *ring)
{
    for (struct draft **at = &drafts; *at != NULL;)
        if ((*at)->peer == ring->peer && (*at)->serial == ring->serial && (*at)->ring == ring->id)
            drop(at);
        else
            at = &(*at)->next;
}

int pull_ring(struct store *store, uint32_t peer, const struct portus_message *message, int fd)
{
    struct ring *ring = NULL, **at = find_ring(peer, store->serial[peer], message->value);
    bool far = store->peer[peer].far != NULL;
    int error = -EPROTO;
    void *base;

    if (*at != NULL)
        close_ring(at);
    if (message->size > INT64_MAX) /* no log is so long */
        goto refuse;
    if (far ? message->flags == 0 : fd < 0)
        return 0;
    if (many_rings(store, peer))
        goto refuse;
    error = -ENOMEM;
    ring = calloc(1, sizeof(*ring));
    if (ring == NULL ||
        (far && reel_open(&ring->reel, store, peer, message->value, message->size) != 0))
        goto refuse;
    ring->peer = peer;
    ring->serial = store->serial[peer];
    ring->id = message->value;
    ring->fd = fd;
    ring->position = ring->upto = message->size;
    if (!far && store->peer[peer].uid == store->self) {
        base = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
        ring->base = base == MAP_FAILED ? NULL : base;
    }
    ring->next = rings;
    rings = ring;
    return 0;

refuse:
    free(ring);
    if (fd >= 0)
        close(fd);
    return error;
}

int pull_more(struct store *store, uint32_t peer, const struct portus_message *message)
{
    struct ring *ring = *find_ring(peer, store->serial[peer], message->value);

    if (ring == NULL)
        return -EPROTO;
    if (message->size < ring->upto || message->size - ring->position > PORTUS_RECORDS)
        return -EPROTO;
    ring->upto = message->size;
    ring->asked = true;
    return 0;
}

/* Length bytes of the ring at offset, or NULL: it has not so many. */
static const void *bytes(struct ring *ring, uint64_t offset, size_t length, void *buffer)
{
    struct stat status;

    if (offset + length > ring->bytes) {
        if (fstat(ring->fd, &status) < 0 || offset + length > (uint64_t)status.st_size)
            return NULL;
        ring->bytes = (uint64_t)status.st_size;
    }
    if (ring->base != NULL)
        return ring->base + offset;
    return pread(ring->fd, buffer, length, (off_t)offset) == (ssize_t)length ? buffer : NULL;
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

    *landing = NULL;
    if (draft == NULL)
        return false;
    /* Small ones are not worth an extent of their own. */
    if (far_lands(store->peer[peer].far) && record->length >= LANDS &&
        share_has_room(store, draft, record->length) == 0 &&
        pool_land(store->pool, store->peer[peer].uid, record->length, landing) == 0)
        draft->written += record->length;
    return true;
}

static int write_draft(struct store *store, struct draft *draft, uint64_t offset, const void *data,
                       uint32_t length)
{
    const struct pool_share share = store_share(store, store->peer[draft->peer].uid);
    int error = share_has_room(store, draft, length);

    if (error == 0)
        error = pool_write(draft->pulled.draft, offset, data, length);
    draft->written += length;
    if (error == -ENOSPC) {
        error =
            store_room(store, &share, draft->path, store_job(store->peer[draft->peer].job), length);
        if (error == 0)
            error = pool_write(draft->pulled.draft, offset, data, length);
    }
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

/* Copies the next record. False: the ring makes no sense. */
static bool copy(struct store *store, struct ring *ring)
{
    static uint8_t buffer[PORTUS_CHUNK] __attribute__((aligned(4096)));
    uint64_t sequence = ring->position;
    struct portus_record room, record;
    const struct portus_record *shared =
        bytes(ring, sequence % PORTUS_RECORDS * sizeof(record), sizeof(record), &room);
    struct draft *draft;
    const void *data;

    if (shared == NULL ||
        atomic_load_explicit(&shared->stamp, memory_order_acquire) != sequence + 1)
        return false;
    record.offset = shared->offset;
    record.data = shared->data;
    record.length = shared->length;
    record.file = shared->file;
    if (record.length == 0)
        return true;
    draft = draft_of(ring->peer, ring->serial, ring->id, record.file, sequence);
    if (draft == NULL)
        return true;
    if (record.length > PORTUS_CHUNK || record.data > PORTUS_RING_MAX ||
        record.offset > INT64_MAX - PORTUS_CHUNK)
        return false;
    data = bytes(ring, PORTUS_RING_DATA + record.data, record.length, buffer);
    if (data == NULL)
        return false;
    keep(store, draft, &record, data);
    return true;
}

static void distrust(const struct store *store, struct ring *ring)
{
    if (!store->shared || store_may_tell())
        log_warn("process %u: its ring makes no sense at record %llu: its files are read",
                 store->peer[ring->peer].pid, (unsigned long long)ring->position);
    spoil(ring);
    ring->position = ring->upto;
}

/* The next turn begins behind that ring. */
static void turn_to(struct ring *last)
{
    struct ring **end = &last->next;

    while (*end != NULL)
        end = &(*end)->next;
    *end = rings;
    rings = last->next;
    last->next = NULL;
}

bool pull_turn(struct store *store)
{
    unsigned left = ALL_A_TURN;
    bool more = false;

    for (struct ring *ring = rings; ring != NULL; ring = ring->next) {
        for (unsigned i = 0; i < RECORDS_A_TURN && ring->position < ring->upto; i++) {
            uint64_t before = ring->position;
            bool right = ring->reel != NULL ? reel_turn(ring->reel, ring->upto, &ring->position)
                                            : copy(store, ring);

            if (!right) {
                distrust(store, ring);
                break;
            }
            if (ring->reel == NULL) {
                ring->position++;
                left--;
            } else if (ring->position == before) {
                break; /* it comes when it comes */
            }
        }
        more |= ring->position < ring->upto && ring->reel == NULL;
        if (ring->asked && ring->position == ring->upto) {
            uint32_t peer = ring->peer, serial = ring->serial;

            ring->asked = false;
            store_tell(store, peer, serial, PORTUS_OP_STORE_PULLED, ring->id, 0, ring->upto);
            if (store->serial[peer] != serial)
                return true; /* it was hung up, and its rings are gone */
        }
        if (left < RECORDS_A_TURN) {
            turn_to(ring);
            return true;
        }
    }
    return more;
}
