/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * import.c -- what portusctl import sends to portusd
 *
 * A version at a time of each connection, its bytes in its packets: no descriptor is passed, and
 * none is looked at. Whose it is the socket knows; root alone says for whom it imports. Where a
 * store is shared nobody makes a version that root would restore to more than a file of its
 * importer.
 */
#include "store/import.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "store/intake.h"
#include "store/state.h"

bool import_is(unsigned op)
{
    return op == PORTUS_OP_STORE_IMPORT || op == PORTUS_OP_STORE_BYTES ||
           op == PORTUS_OP_STORE_KEEP;
}

static int begin(struct store *store, struct store_peer *peer, const void *bytes, size_t length)
{
    struct intake *intake;
    struct pool_share share;
    uint32_t owner = peer->uid;
    int error;

    if (peer->intake == NULL)
        peer->intake = calloc(1, sizeof(*peer->intake));
    if (peer->intake == NULL)
        return -ENOMEM;
    intake = peer->intake;
    error = intake_read(intake, bytes, length);
    if (error != 0)
        return error;
    if (store->ending)
        return -ECANCELED;
    if (peer->uid == 0)
        owner = intake->file.owner;
    else if (store->shared)
        intake->file.mode &= ~(uint32_t)(S_ISUID | S_ISGID | S_ISVTX);
    if (peer->uid != 0 && store->shared && peer->far == NULL)
        intake->file.uid = peer->uid;
    share = store_share(store, owner);
    share.owner = owner;
    return intake_begin(intake, store->pool, &share, store->keep);
}

int import_hear(struct store *store, unsigned place, const struct portus_message *message,
                const void *bytes, size_t length)
{
    struct store_peer *peer = &store->peer[place];
    uint64_t number = 0;
    int error;

    if (message->op == PORTUS_OP_STORE_BYTES) {
        if (peer->intake == NULL)
            return -EPROTO;
        intake_put(peer->intake, message->size, bytes, length);
        return 0;
    }
    if (message->op == PORTUS_OP_STORE_IMPORT)
        error = begin(store, peer, bytes, length);
    else if (peer->intake != NULL && length == 0)
        error = intake_keep(peer->intake, &number);
    else
        error = -EPROTO;
    if (error == -EPROTO)
        return error;
    store_answer(store, place, store->serial[place], message->value, error, number);
    return 0;
}

void import_close(struct intake *intake)
{
    if (intake == NULL)
        return;
    intake_drop(intake);
    free(intake);
}
