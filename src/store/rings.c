/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings.c -- copies what programs save out of their rings, while they save
 *
 * An agent passes a session's ring, read-only, and says which records of its log are
 * filled; each is copied into the draft of its file (pull.c). The agent lets no record be
 * overwritten until it is told that it was copied, or it gives the draft up.
 *
 * A ring of this user's is mapped; another's is read, as is one that cannot be mapped. Nothing in
 * it is trusted: what makes no sense ends its drafts, and their files are copied whole.
 */
#include "store/rings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "store/hand.h"
#include "store/pull.h"

#define RECORDS_A_TURN 16 /* of a ring */
#define ALL_A_TURN 128    /* of all: others are heard meanwhile */
#define RINGS 1024
#define RINGS_USER 256 /* where strangers come, who share the descriptors that there are */

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

static struct ring *rings;

/* Whether one user has as many as there may be: nobody else's are fewer for it. */
static bool many_rings(const struct store *store, uint32_t peer)
{
    unsigned count = 0, most = store->strangers ? RINGS_USER : RINGS;

    for (const struct ring *ring = rings; ring != NULL; ring = ring->next)
        count += store->peer[ring->peer].uid == store->peer[peer].uid;
    return count >= most;
}

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

void rings_gone(uint32_t peer, uint32_t serial)
{
    for (struct ring **at = &rings; *at != NULL;)
        if ((*at)->peer == peer && (*at)->serial == serial)
            close_ring(at);
        else
            at = &(*at)->next;
}

int rings_offered(struct store *store, uint32_t peer, const struct portus_message *message, int fd)
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

int rings_filled(struct store *store, uint32_t peer, const struct portus_message *message)
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

/* Copies the next record. False: the ring makes no sense. */
static bool copy(struct store *store, struct ring *ring)
{
    static uint8_t buffer[PORTUS_CHUNK] __attribute__((aligned(4096)));
    uint64_t sequence = ring->position;
    struct portus_record room, record;
    const struct portus_record *shared =
        bytes(ring, sequence % PORTUS_RECORDS * sizeof(record), sizeof(record), &room);
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
    if (!pull_wanted(store, ring->peer, ring->id, &record, sequence, NULL))
        return true;
    if (record.length > PORTUS_CHUNK || record.data > PORTUS_RING_MAX ||
        record.offset > INT64_MAX - PORTUS_CHUNK)
        return false;
    data = bytes(ring, PORTUS_RING_DATA + record.data, record.length, buffer);
    if (data == NULL)
        return false;
    pull_record(store, ring->peer, ring->id, &record, sequence, data);
    return true;
}

static void distrust(const struct store *store, struct ring *ring)
{
    if (!store->shared || store_may_tell())
        log_warn("process %u: its ring makes no sense at record %llu: its files are read",
                 store->peer[ring->peer].pid, (unsigned long long)ring->position);
    pull_spoil(ring->peer, ring->serial, ring->id);
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

bool rings_turn(struct store *store)
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
