/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carrier_fuzz.c -- libFuzzer's entry: a store on another machine that has the key, and means harm
 *
 *     make fuzz-carrier F='-max_total_time=60'         (clang, with its libFuzzer)
 *
 * portus-carrier's own code but what connects, with a wire that brings what the input says; between its
 * messages the agent of this machine hands files and rings over, takes them back, and goes at last.
 * Right: no finding of ASan or UBSan, an end soon after, no descriptor kept; and what is answered to
 * FAR_FETCH are bytes of something that had been handed over, where it was asked for.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "carrier/carrier.h"
#include "common/futex.h"
#include "common/listing.h"
#include "common/log.h"
#include "common/message.h"
#include "portus/ring.h"
#include "input.h"
#include "wire.h"

#define SENT (8u << 20)
#define FILES 4
#define BYTES (1u << 20)
#define MESSAGES 400

struct wire {
    uint8_t sent[SENT + 4096]; /* since the last flush; bytes of the message that is made last */
};

static struct wire wire;
static unsigned messages;
static int agent; /* its end of the carrier's socket */
static char place[] = "/dev/shm/portus-fuzz-XXXXXX";
static int directory, file[FILES], ring;
static struct portus_message answer; /* FAR_DATA that is being made */
static const uint8_t *answered;
static uint8_t body[4096];

/* Byte of what is handed over; what is not has none of these. */
static uint8_t byte_at(unsigned what, uint64_t offset)
{
    return (uint8_t)(0x11 * (what + 1) ^ (offset >> 12));
}

/* ---- the agent of this machine ---- */

static void listen_to_carrier(void)
{
    struct portus_message message;
    static uint8_t bytes[PORTUS_STORE_BYTES];

    while (agent >= 0 && portus_message_receive_bytes(agent, &message, bytes, sizeof(bytes), 0) == 0)
        ;
}

static void agent_says(void)
{
    static const uint16_t ops[] = {PORTUS_OP_STORE_RING,   PORTUS_OP_STORE_FILE, PORTUS_OP_STORE_DRAFT,
                                   PORTUS_OP_STORE_CANCEL, PORTUS_OP_STORE_DROP, PORTUS_OP_STORE_SEAL,
                                   PORTUS_OP_STORE_PULL,   PORTUS_OP_STORE_RENAMED};
    struct portus_message message = portus_message_make((enum portus_op)ops[take(1) % (sizeof(ops) / sizeof(ops[0]))]);
    unsigned count = 0, which = (unsigned)take(1);
    int fds[2] = {-1, -1};

    message.value = take(1) & 3;
    message.size = take(1);
    message.flags = (uint32_t)take(1);
    if (message.op == PORTUS_OP_STORE_RING && which & 3)
        fds[count++] = dup(ring);
    if (message.op == PORTUS_OP_STORE_FILE || message.op == PORTUS_OP_STORE_DRAFT)
        fds[count++] = dup(file[which % FILES]);
    if (message.op == PORTUS_OP_STORE_RENAMED || (message.op == PORTUS_OP_STORE_FILE && which & 16))
        fds[count++] = listing_make(body, which);
    portus_message_send(agent, &message, fds, count);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

/* ---- the store ---- */

int wire_receive(struct wire *self, struct portus_message *message, const void **bytes, size_t *length)
{
    static const uint16_t ops[] = {PORTUS_OP_FAR_FETCH,  PORTUS_OP_FAR_FETCH,    PORTUS_OP_FAR_FETCH, PORTUS_OP_FAR_CHECK,
                                   PORTUS_OP_STORE_DONE, PORTUS_OP_STORE_PULLED, PORTUS_OP_STORE_BYTES,
                                   PORTUS_OP_FAR_DATA,   PORTUS_OP_WELCOME,      PORTUS_OP_RDMA_WANT};
    uint8_t kind;

    listen_to_carrier();
    if (left == 0 || ++messages > MESSAGES) {
        if (agent >= 0)
            close(agent);
        agent = -1;
        return -ECONNRESET;
    }
    kind = (uint8_t)take(1);
    if (kind < 64) {
        agent_says();
        return -EAGAIN;
    }
    *message = portus_message_make((enum portus_op)(kind == 255 ? take(1) : ops[take(1) % (sizeof(ops) / sizeof(ops[0]))]));
    message->value = (uint32_t)(kind < 240 ? take(1) & 3 : take(4));
    message->size = kind < 200 ? take(3) : kind < 230 ? PORTUS_RING_DATA + take(2) : take(8);
    message->flags = (uint32_t)(kind < 220 ? take(2) : take(4));
    message->time = kind < 240 ? take(1) & 1 : (int64_t)take(8);
    message->error = kind & 1 ? 0 : (int32_t)take(4);
    *length = message->op == PORTUS_OP_STORE_BYTES || kind == 250 ? take(2) % sizeof(body) : 0;
    *bytes = body;
    return 0;
}

int wire_begin(struct wire *self, const struct portus_message *message, size_t length, void **to)
{
    if (length > SENT)
        return -EMSGSIZE;
    answer = *message;
    answered = length > 0 && message->op == PORTUS_OP_FAR_DATA ? self->sent : NULL;
    *to = self->sent;
    return 0;
}

void wire_take_back(struct wire *self, size_t length)
{
    answered = NULL;
}

/* What goes out was handed over, or (of a ring) is there. */
int wire_flush(struct wire *self)
{
    if (answered != NULL) {
        unsigned what = FILES;

        while (what > 0 && byte_at(what, answer.size) != answered[0])
            what--;
        for (uint32_t i = 0; i < answer.flags; i += 997)
            assert(answered[i] == byte_at(what, answer.size + i));
        assert((what == FILES) == (answer.time == 0));
        assert(answer.size + answer.flags <= BYTES + (what == FILES ? PORTUS_RING_DATA : 0));
    }
    answered = NULL;
    return 0;
}

int wire_send(struct wire *self, const struct portus_message *message, const void *bytes, size_t length)
{
    return length > SENT ? -EMSGSIZE : 0;
}

size_t wire_queued(const struct wire *self)
{
    return 0;
}

uint64_t wire_heard(const struct wire *self)
{
    return portus_now();
}

uint32_t wire_owner(const struct wire *self)
{
    return 0;
}

int wire_secret(const struct wire *self, uint8_t secret[WIRE_SECRET])
{
    memset(secret, 0, WIRE_SECRET);
    return 0;
}

int carrier_join(struct joined *joined, const char *stores, unsigned first, const char *key,
                 const struct portus_message *hello, const struct transport_client *client)
{
    *joined = (struct joined){.wire = &wire, .kind = &transport_tcp};
    return joined->kind->open(&joined->lane, &wire, client);
}

static void fill(int fd, unsigned what, uint64_t bytes)
{
    static uint8_t piece[4096];

    for (uint64_t at = 0; at < bytes; at += sizeof(piece)) {
        memset(piece, byte_at(what, at), sizeof(piece));
        if (pwrite(fd, piece, sizeof(piece), (off_t)at) != sizeof(piece))
            abort();
    }
}

static void once(void)
{
    char name[64];

    signal(SIGIO, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "fuzz: ");
    ready = eventfd(1, 0);
    if (mkdtemp(place) == NULL)
        abort();
    for (unsigned i = 0; i < FILES; i++) {
        int writer;

        snprintf(name, sizeof(name), "%s/%u", place, i);
        writer = open(name, O_CREAT | O_RDWR, 0600);
        fill(writer, i, BYTES);
        close(writer);
        file[i] = open(name, O_RDONLY);
        if (i & 1)
            fcntl(file[i], F_SETLEASE, F_RDLCK);
    }
    ring = memfd_create("ring", MFD_ALLOW_SEALING);
    fill(ring, FILES, PORTUS_RING_DATA + BYTES);
    fcntl(ring, F_ADD_SEALS, F_SEAL_SHRINK);
    directory = open(place, O_RDONLY | O_DIRECTORY);
}

static void forget(void)
{
    for (char name[2] = "0"; name[0] < '0' + FILES; name[0]++)
        unlinkat(directory, name, 0);
    rmdir(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static bool begun;
    unsigned before;
    struct portus_message hello = portus_message_make(PORTUS_OP_HELLO);
    int pair[2];

    if (!begun) {
        begun = true;
        once();
        atexit(forget);
    }
    before = descriptors();
    data = bytes, left = size;
    messages = 0;
    answered = NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    agent = pair[0];
    portus_message_send(agent, &hello, NULL, 0);
    carrier_run(pair[1], "", 0, "");
    if (agent >= 0)
        close(agent);
    if (fcntl(pair[1], F_GETFD) >= 0) /* it ended before it began */
        close(pair[1]);
    assert(descriptors() == before);
    return 0;
}
