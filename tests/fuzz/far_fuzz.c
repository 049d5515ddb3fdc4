/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far_fuzz.c -- libFuzzer's entry: a client of another machine that has a key, and means harm
 *
 *     make fuzz-far F='-max_total_time=60'         (clang, with its libFuzzer)
 *
 * portusd's own code but its main, with a wire that brings what the input says: messages of any
 * kind, and answers, right and wrong, to what the store asks for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "common/message.h"
#include "portus/ring.h"
#include "store/far.h"
#include "store/rings.h"
#include "store/state.h"
#include "input.h"
#include "wire.h"

#define BODY (1u << 20)
#define ASKED 64
#define TURNS 400

struct wire {
    struct portus_message asked[ASKED]; /* by the store, not answered */
    unsigned from, to;
    uint64_t heard; /* when this input began: no clock is behind it */
    uint8_t body[BODY + 4096];
    uint8_t sent[BODY + 4096];
};

static struct wire wire;
static struct store store = {.listener = -1, .shared = true, .keep = 1};

static size_t describe(uint8_t *to)
{
    struct portus_far_file file = {.size = 3 << 20,
                                   .mode = 0100644,
                                   .links = 1,
                                   .handle_type = 1,
                                   .handle_bytes = 8,
                                   .path_bytes = 6};
    uint8_t patches = take(1) & 3;

    file.handle[0] = take(1) & 3;
    memcpy(to, &file, sizeof(file));
    memcpy(to + sizeof(file), "/a/bc\0\0\0", 8);
    while (patches-- > 0)
        to[take(1) % (sizeof(file) + 8)] = (uint8_t)take(1);
    return sizeof(file) + 6 + (take(1) & 1);
}

/* What the store has asked for: records that may make sense, or bytes. */
static size_t answer(const struct portus_message *asked)
{
    struct portus_record record;

    memset(wire.body, 0x5a, asked->flags);
    for (uint32_t at = 0; asked->time == 0 && asked->size < PORTUS_RING_DATA &&
                          at + sizeof(record) <= asked->flags && at < 64 * sizeof(record);
         at += sizeof(record)) {
        memset(&record, 0, sizeof(record));
        record.stamp = (asked->size + at) / sizeof(record) + 1 + (take(1) == 255);
        record.file = take(1) & 3;
        record.length = take(1) == 254 ? (uint32_t)take(4) : 1 + (uint32_t)take(2);
        record.offset = take(1) == 253 ? take(8) : take(3);
        record.data = take(1) == 252 ? take(8) : take(3);
        memcpy(wire.body + at, &record, sizeof(record));
    }
    return asked->flags;
}

/* What portusctl import says of a file. */
static size_t import(uint8_t *to)
{
    struct portus_import file = {
        .size = take(2), .mode = 0100644, .path_bytes = 3, .job_bytes = 1};
    uint8_t patches = take(1) & 3;

    memcpy(to, &file, sizeof(file));
    memcpy(to + sizeof(file), "/x\0", 4);
    while (patches-- > 1)
        to[take(1) % (sizeof(file) + 4)] = (uint8_t)take(1);
    return sizeof(file) + 4 - (take(1) == 255);
}

int wire_receive(struct wire *self, struct portus_message *message, const void **bytes,
                 size_t *length)
{
    static const uint16_t ops[] = {64, 66, 67, 68, 69, 70, 71, 72,  73,
                                   75, 76, 80, 81, 82, 83, 85, 87, 103, 104, 105, 106, 1};
    uint8_t kind;

    if (left == 0)
        return -ECONNRESET;
    kind = (uint8_t)take(1);
    *bytes = self->body;
    *length = 0;
    if (kind < 16)
        return -EAGAIN;
    if (kind < 128 && self->from != self->to) {
        *message = self->asked[self->from++ % ASKED];
        if (message->op == PORTUS_OP_FAR_CHECK) {
            message->op = PORTUS_OP_FAR_STATE;
            message->error = kind == 127 ? -ESTALE : 0;
            *length = message->error == 0 ? describe(self->body) : 0;
        } else {
            message->op = PORTUS_OP_FAR_DATA;
            message->error = kind == 127 ? -(int)take(1) : 0;
            *length = message->error == 0 ? answer(message) : 0;
        }
        return 0;
    }
    *message = portus_message_make((enum portus_op)ops[take(1) % (sizeof(ops) / sizeof(ops[0]))]);
    message->value = kind & 16 ? (uint32_t)take(1) & 3 : (uint32_t)take(4);
    message->size = kind & 32 ? take(1) & 15 : take(8);
    message->flags =
        kind & 64 ? (uint32_t)take(1) << 16 | (take(1) & 3) : (uint32_t)take(4) & 0xfffff;
    message->time = (int64_t)take(1);
    if (message->op == PORTUS_OP_STORE_IMPORT)
        *length = import(self->body);
    else if (take(1) & 1)
        *length = describe(self->body);
    return 0;
}

int wire_begin(struct wire *self, const struct portus_message *message, size_t length, void **to)
{
    if (length > BODY)
        return -EMSGSIZE;
    if ((message->op == PORTUS_OP_FAR_FETCH || message->op == PORTUS_OP_FAR_CHECK) &&
        self->to - self->from < ASKED)
        self->asked[self->to++ % ASKED] = *message;
    *to = self->sent;
    return 0;
}

int wire_send(struct wire *self, const struct portus_message *message, const void *bytes,
              size_t length)
{
    void *to;
    int error = wire_begin(self, message, length, &to);

    if (error == 0 && length > 0)
        memcpy(to, bytes, length);
    return error;
}

void wire_take_back(struct wire *self, size_t length)
{
}

int wire_flush(struct wire *self)
{
    return 0;
}

size_t wire_queued(const struct wire *self)
{
    return 0;
}

uint64_t wire_heard(const struct wire *self)
{
    return self->heard;
}

uint32_t wire_owner(const struct wire *self)
{
    return KEY_OWNERS | 2;
}

/* Nobody knocks. */
int wire_accept(struct wire **out, const struct keys *keys, int fd)
{
    return -ENOSYS;
}

int wire_prove(struct wire *self)
{
    return -ENOSYS;
}

int wire_secret(const struct wire *self, uint8_t secret[WIRE_SECRET])
{
    memset(secret, 0, WIRE_SECRET);
    return 0;
}

static void begin(void)
{
    char path[] = "/dev/shm/portus-fuzz-XXXXXX";
    int fd = mkstemp(path);

    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    close(fd);
    unlink(path);
    if (fd < 0 || pool_create(path, 16 << 20, 64, false) != 0 ||
        pool_open(&store.pool, path, true) != 0)
        abort();
    unlink(path);
    config_reset(&store.config);
    store.config.usual.bytes = 8 << 20;
    for (unsigned i = 0; i < STORE_PEERS; i++)
        store.peer[i].socket = -1;
    ready = eventfd(1, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct far *far = calloc(1, sizeof(*far));

    if (store.pool == NULL)
        begin();
    data = input;
    left = size;
    wire.from = wire.to = 0;
    wire.heard = portus_now();
    far->store = &store;
    far->wire = &wire;
    far->kind = &transport_tcp;
    if (far->kind->open(&far->lane, far->wire, NULL) != 0)
        abort();
    store.peer[0] = (struct store_peer){
        .socket = ready, .uid = wire_owner(&wire), .welcomed = true, .far = far};
    for (unsigned i = 0; i < TURNS && (store.peer[0].socket >= 0 || store_waits(&store)); i++) {
        rings_turn(&store);
        store_take(&store);
        if (i == TURNS - 1)
            left = 0;
        store_listen(&store, -1, 0);
    }
    while (store.peer[0].socket >= 0)
        store_listen(&store, -1, 0);
    while (store_take(&store) || store_waits(&store))
        ;
    return 0;
}
