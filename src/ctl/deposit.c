/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deposit.c -- puts versions into a pool: by the portusd that serves it, or itself if none does
 */
#include "ctl/deposit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/address.h"
#include "common/message.h"
#include "ctl/ctl.h"
#include "store/change.h"
#include "store/intake.h"
#include "store/remote.h"

#define PATIENCE_MS 30000 /* for a portusd that takes nothing */

struct deposit {
    int socket;        /* -1: here */
    struct pool *pool; /* here */
    unsigned keep;
    struct intake intake;
};

static const struct pool_share everyone = {.everyone = true};

int deposit_open(struct deposit **out, const char *store, unsigned keep)
{
    struct deposit *deposit = calloc(1, sizeof(*deposit));
    int error = deposit == NULL ? -ENOMEM : 0;

    if (error == 0) {
        deposit->keep = keep;
        deposit->socket = remote_connect(store);
        error = deposit->socket < 0 ? deposit->socket : 0;
    }
    if (error == -ECONNREFUSED && !remote_is(store)) {
        deposit->socket = -1;
        error = pool_open(&deposit->pool, store, true);
    } else if (error != 0) {
        complain("import: %s: %s", store, portus_address_why(error));
    }
    if (error != 0) {
        free(deposit);
        return error;
    }
    *out = deposit;
    return 0;
}

/* What a portusd has no room for at once is waited for. */
static int send_to(struct deposit *deposit, const struct portus_message *message, const void *bytes)
{
    struct pollfd event = {.fd = deposit->socket, .events = POLLOUT};

    for (;;) {
        int error = portus_message_send_bytes(deposit->socket, message, bytes);

        if (error != -EAGAIN)
            return error == -EPIPE ? -ECONNRESET : error;
        if (poll(&event, 1, PATIENCE_MS) == 0)
            return -ETIMEDOUT;
    }
}

int deposit_begin(struct deposit *deposit, const struct portus_import *file, const char *path,
                  const char *job)
{
    struct {
        struct portus_import file;
        char texts[sizeof(deposit->intake.path) + sizeof(deposit->intake.job)];
    } bytes = {*file, ""};
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_IMPORT);
    size_t path_bytes = strlen(path) + 1, job_bytes = strlen(job) + 1;
    struct pool_share share = everyone;
    uint64_t nothing;
    int error;

    if (path_bytes > sizeof(deposit->intake.path) || job_bytes > sizeof(deposit->intake.job))
        return -ENAMETOOLONG;
    bytes.file.path_bytes = (uint32_t)path_bytes;
    bytes.file.job_bytes = (uint32_t)job_bytes;
    memcpy(bytes.texts, path, path_bytes);
    memcpy(bytes.texts + path_bytes, job, job_bytes);
    message.flags = (uint32_t)(sizeof(bytes.file) + path_bytes + job_bytes);
    if (deposit->socket >= 0) {
        error = send_to(deposit, &message, &bytes);
        return error != 0 ? error : remote_answer(deposit->socket, &nothing);
    }
    error = intake_read(&deposit->intake, &bytes, message.flags);
    if (error != 0)
        return error;
    share.owner = geteuid() == 0 ? file->owner : geteuid();
    return intake_begin(&deposit->intake, deposit->pool, &share, deposit->keep);
}

int deposit_put(struct deposit *deposit, uint64_t offset, const void *bytes, size_t length)
{
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_BYTES);
    const char *from = bytes;
    int error = 0;

    if (deposit->socket < 0)
        return intake_put(&deposit->intake, offset, bytes, length);
    while (error == 0 && length > 0) {
        message.size = offset;
        message.flags = length < PORTUS_STORE_BYTES ? (uint32_t)length : PORTUS_STORE_BYTES;
        error = send_to(deposit, &message, from);
        offset += message.flags;
        from += message.flags;
        length -= message.flags;
    }
    return error;
}

int deposit_keep(struct deposit *deposit, uint64_t *number)
{
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_KEEP);
    int error;

    if (deposit->socket >= 0) {
        error = send_to(deposit, &message, NULL);
        return error != 0 ? error : remote_answer(deposit->socket, number);
    }
    return intake_keep(&deposit->intake, number);
}

int deposit_mark(struct deposit *deposit, enum portus_op op, uint64_t number)
{
    uint64_t nothing;

    if (deposit->socket >= 0)
        return remote_ask(deposit->socket, op, number, 0, &nothing);
    return pool_change(deposit->pool, &everyone, op, number, 0, deposit->keep, &nothing);
}

void deposit_close(struct deposit *deposit)
{
    if (deposit == NULL)
        return;
    if (deposit->socket >= 0) {
        close(deposit->socket);
    } else {
        intake_drop(&deposit->intake);
        pool_close(deposit->pool);
    }
    free(deposit);
}
