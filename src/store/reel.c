/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reel.c -- the ring of a client on another machine, read record by record
 *
 * First what the records say, some at a time, then their bytes: as many reads are under way
 * as one source may have. They come in the order of the log, and go into the drafts in it.
 * A record that no draft wants is passed over. Nothing in them is trusted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/far.h"
#include "store/pull.h"
#include "store/rings.h"
#include "store/state.h"

#define HEADS 256
#define IS_HEAD UINT64_MAX

struct reel {
    struct store *store;
    uint32_t peer, id;
    struct far_source *source;
    uint64_t position; /* all before are where they belong */
    uint64_t asked;    /* all before are asked for, or not wanted */
    uint64_t known;    /* what all before say is in record */
    bool head, wrong;  /* records are being read; they make no sense */
    struct portus_record record[HEADS];
    bool there[HEADS];
};

static bool sensible(const struct portus_record *record, uint64_t sequence)
{
    return atomic_load(&record->stamp) == sequence + 1 &&
           (record->length == 0 ||
            (record->length <= PORTUS_CHUNK && record->data <= PORTUS_RING_MAX &&
             record->offset <= INT64_MAX - PORTUS_CHUNK));
}

static void got_heads(struct reel *reel, const void *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct portus_record *record = &reel->record[(reel->known + i) % HEADS];

        memcpy(record, (const char *)bytes + i * sizeof(*record), sizeof(*record));
        reel->there[(reel->known + i) % HEADS] = false;
        if (!sensible(record, reel->known + i)) {
            reel->wrong = true;
            return;
        }
    }
    reel->known += count;
}

static void got(void *owner, uint64_t cookie, uint64_t offset, const void *bytes, uint32_t length,
                int error, struct pool_landing *landing)
{
    struct reel *reel = owner;
    const struct portus_record *record = &reel->record[cookie % HEADS];

    if (cookie == IS_HEAD)
        reel->head = false;
    if (bytes == NULL)
        reel->wrong = true;
    if (reel->wrong) {
        pool_land_drop(landing);
        return;
    }
    if (cookie == IS_HEAD) {
        got_heads(reel, bytes, length / sizeof(struct portus_record));
        return;
    }
    if (record->length != length) {
        reel->wrong = true;
        pool_land_drop(landing);
        return;
    }
    if (landing != NULL)
        pull_landed(reel->store, reel->peer, reel->id, record, cookie, landing);
    else
        pull_record(reel->store, reel->peer, reel->id, record, cookie, bytes);
    reel->there[cookie % HEADS] = true;
}

int reel_open(struct reel **out, struct store *store, uint32_t peer, uint32_t id, uint64_t position)
{
    struct reel *reel = calloc(1, sizeof(*reel));
    int error = reel == NULL ? -ENOMEM : 0;

    if (error == 0)
        error =
            far_source_open(&reel->source, store->peer[peer].far, TRANSPORT_RING, id, got, reel);
    if (error != 0) {
        free(reel);
        return error;
    }
    reel->store = store;
    reel->peer = peer;
    reel->id = id;
    reel->position = reel->asked = reel->known = position;
    *out = reel;
    return 0;
}

void reel_close(struct reel *reel)
{
    if (reel == NULL)
        return;
    far_source_close(reel->source);
    free(reel);
}

static void ask_heads(struct reel *reel, uint64_t upto)
{
    uint64_t place = reel->known % PORTUS_RECORDS, count = upto - reel->known;
    int error;

    if (count > HEADS - (reel->known - reel->position))
        count = HEADS - (reel->known - reel->position);
    if (count > PORTUS_RECORDS - place)
        count = PORTUS_RECORDS - place;
    if (count == 0 || reel->head)
        return;
    error = far_source_read(reel->source, place * sizeof(struct portus_record),
                            (uint32_t)(count * sizeof(struct portus_record)), IS_HEAD, NULL);
    reel->head = error == 0;
    reel->wrong |= error != 0 && error != -EAGAIN;
}

static void ask_bytes(struct reel *reel)
{
    int error = 0;

    while (reel->asked < reel->known && !far_source_full(reel->source) && !reel->wrong) {
        const struct portus_record *record = &reel->record[reel->asked % HEADS];
        struct pool_landing *landing = NULL;

        if (record->length == 0 ||
            !pull_wanted(reel->store, reel->peer, reel->id, record, reel->asked, &landing))
            reel->there[reel->asked % HEADS] = true;
        else
            error = far_source_read(reel->source, PORTUS_RING_DATA + record->data, record->length,
                                    reel->asked, landing);
        if (error != 0) {
            pool_land_drop(landing);
            break;
        }
        reel->asked++;
    }
    reel->wrong |= error != 0 && error != -EAGAIN;
}

bool reel_turn(struct reel *reel, uint64_t upto, uint64_t *position)
{
    if (!reel->wrong && upto > reel->known)
        ask_heads(reel, upto);
    ask_bytes(reel);
    while (reel->position < reel->asked && reel->there[reel->position % HEADS])
        reel->position++;
    *position = reel->position;
    return !reel->wrong;
}
