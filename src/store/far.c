/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far.c -- listens for clients on other machines, and lets those in who have a key
 *
 * Who has proven nothing costs a descriptor and some memory, and not for long: there is
 * room for so many, each has so many seconds, and where there is no more room the oldest
 * goes. Nothing is told to anybody before, not even a version.
 *
 * A peer that is not heard of for long, or does not answer what it was asked, is hung up: its
 * files are not kept, and nobody waits.
 */
#include "store/far.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "common/message.h"
#include "store/state.h"

#define KNOCK_NS 10000000000ull  /* to prove, and to say hello */
#define SILENT_NS 30000000000ull /* a client asks every 5 s when nothing is said */
#define ANSWER_NS 60000000000ull /* what it was asked for must come by then */
#define QUEUED (8u << 20)        /* who does not take its answers gets none */
#define ACCEPTS_A_TURN 32
#define HEARD_A_TURN 32 /* messages about reading, of one peer */

struct knocking {
    struct wire *wire; /* NULL: none */
    const struct transport_kind *kind;
    uint64_t since;
};

static struct {
    bool lands; /* reads may come straight into the pool */
    int fd[FAR_LISTENERS];
    const struct transport_kind *kind[FAR_LISTENERS];
    unsigned count;
    struct knocking knocking[FAR_KNOCKING];
} all;

/* ---- listening ---- */

static int listen_one(const struct addrinfo *address)
{
    const int on = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, 512) < 0) {
        error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int far_listen(struct store *store, const char *text)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    struct portus_address address;
    int error = portus_address_get(&address, text, 0) ? 0 : -EINVAL;

    if (error == 0 && getaddrinfo(address.host, address.port, &hints, &list) != 0)
        error = -EADDRNOTAVAIL;
    for (const struct addrinfo *one = list; one != NULL && error == 0; one = one->ai_next) {
        int fd = all.count < FAR_LISTENERS ? listen_one(one) : -ENOSPC;

        error = fd < 0 ? fd : 0;
        if (error == 0) {
            all.kind[all.count] = transport_find(address.scheme);
            all.fd[all.count++] = fd;
        }
    }
    if (error == 0 && transport_find(address.scheme)->listen != NULL)
        error = transport_find(address.scheme)->listen(&address, list);
    if (list != NULL)
        freeaddrinfo(list);
    if (error != 0)
        log_error("--listen %s: %s", text,
                  error == -EINVAL ? "no address: give for example tcp://192.0.2.1:7470"
                                   : portus_address_why(error));
    return error;
}

void far_keep(const struct pool *pool)
{
    void *memory;
    size_t length;

    if (pool_memory(pool, &memory, &length) != 0)
        return;
    for (unsigned i = 0; i < all.count && !all.lands; i++)
        if (all.kind[i]->keep != NULL) {
            all.lands = all.kind[i]->keep(memory, length) == 0;
            return;
        }
}

unsigned far_watch(struct pollfd *events, unsigned room)
{
    unsigned count = 0;
    bool ready;

    for (unsigned i = 0; i < all.count && count < room && !store_deaf(); i++)
        events[count++] = (struct pollfd){.fd = all.fd[i], .events = POLLIN};
    for (unsigned i = 0; i < FAR_KNOCKING && count < room; i++)
        if (all.knocking[i].wire != NULL)
            events[count++] = (struct pollfd){.fd = wire_descriptor(all.knocking[i].wire),
                                              .events = wire_events(all.knocking[i].wire, &ready)};
    return count;
}

static void turn_away(struct knocking *knocking)
{
    wire_close(knocking->wire);
    knocking->wire = NULL;
}

static void accept_one(struct store *store, unsigned listener)
{
    struct knocking *place = all.knocking;
    int fd = accept4(all.fd[listener], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            store_deafen(errno);
        return;
    }
    for (unsigned i = 0; i < FAR_KNOCKING && place->wire != NULL; i++)
        if (all.knocking[i].wire == NULL || all.knocking[i].since < place->since)
            place = &all.knocking[i];
    if (place->wire != NULL)
        turn_away(place);
    *place = (struct knocking){.kind = all.kind[listener], .since = portus_now()};
    if (wire_accept(&place->wire, &store->keys, fd) != 0)
        place->wire = NULL;
}

/* ---- letting in ---- */

static void refuse(struct knocking *knocking, int error)
{
    struct portus_message answer = portus_message_make(PORTUS_OP_WELCOME);

    answer.error = error;
    wire_send(knocking->wire, &answer, NULL, 0);
}

/* A place among the peers. -EUSERS. */
static int let_in(struct store *store, struct knocking *knocking,
                  const struct portus_message *hello, const struct portus_far_hello *who)
{
    struct portus_message answer = portus_message_make(PORTUS_OP_WELCOME);
    struct pool_state state;
    struct far *far;
    unsigned place = 0;
    int error;

    if (store_crowded(store, wire_owner(knocking->wire)))
        return -EUSERS;
    while (place < STORE_PEERS && store->peer[place].socket >= 0)
        place++;
    if (place == STORE_PEERS)
        return -EUSERS;
    far = calloc(1, sizeof(*far));
    if (far == NULL)
        return -ENOMEM;
    far->store = store;
    far->wire = knocking->wire;
    far->kind = knocking->kind;
    memcpy(far->machine, who->machine, sizeof(far->machine));
    error = far->kind->open(&far->lane, far->wire, NULL);
    if (error != 0) {
        free(far);
        return error;
    }
    pool_look(store->pool, &state);
    answer.flags = PORTUS_WELCOME_STORE | (state.durable ? PORTUS_WELCOME_DURABLE : 0);
    far->failed = wire_send(far->wire, &answer, NULL, 0);
    store->peer[place] = (struct store_peer){.socket = wire_descriptor(far->wire),
                                             .uid = wire_owner(far->wire),
                                             .job = hello->size,
                                             .welcomed = true,
                                             .far = far};
    knocking->wire = NULL;
    log_info("%s is connected from %s", wire_name(far->wire), wire_peer(far->wire));
    return 0;
}

/* One that has proven who it is. -EAGAIN: it has not said hello yet. */
static int greet(struct store *store, struct knocking *knocking)
{
    struct portus_message message;
    struct portus_far_hello who;
    const void *bytes;
    size_t length;
    int error = wire_receive(knocking->wire, &message, &bytes, &length);

    if (error == -EPROTONOSUPPORT) {
        if (store_may_tell())
            log_warn("%s from %s speaks version %u, not %u: refused", wire_name(knocking->wire),
                     wire_peer(knocking->wire), message.version, PORTUS_PROTO_VERSION);
        refuse(knocking, -EPROTONOSUPPORT);
    }
    if (error != 0)
        return error;
    if (message.op != PORTUS_OP_HELLO || message.value != PORTUS_ROLE_KEEP || length < sizeof(who))
        return -EPROTO;
    memcpy(&who, bytes, sizeof(who));
    error = let_in(store, knocking, &message, &who);
    if (error == 0)
        return 0;
    if (store_may_tell())
        log_warn("%s from %s is refused: %s", wire_name(knocking->wire), wire_peer(knocking->wire),
                 portus_address_why(error));
    refuse(knocking, error);
    return error;
}

static void hear(struct store *store, struct knocking *knocking)
{
    int error = wire_prove(knocking->wire);

    if (error == 0)
        error = greet(store, knocking);
    if (error == -EAGAIN && portus_now() - knocking->since > KNOCK_NS)
        error = -ETIMEDOUT;
    if (error == 0 || error == -EAGAIN)
        return;
    if (error == -EKEYREJECTED && store_may_tell())
        log_warn("a client at %s does not have the key of its name: refused",
                 wire_peer(knocking->wire));
    else
        log_debug("a client at %s: %s", wire_peer(knocking->wire), portus_address_why(error));
    turn_away(knocking);
}

void far_listen_turn(struct store *store)
{
    for (unsigned i = 0; i < all.count; i++)
        for (unsigned j = 0; j < ACCEPTS_A_TURN && !store_deaf(); j++) {
            struct pollfd event = {.fd = all.fd[i], .events = POLLIN};

            if (poll(&event, 1, 0) != 1)
                break;
            accept_one(store, i);
        }
    for (unsigned i = 0; i < FAR_KNOCKING; i++)
        if (all.knocking[i].wire != NULL)
            hear(store, &all.knocking[i]);
}

void far_listen_end(void)
{
    for (unsigned i = 0; i < all.count; i++)
        close(all.fd[i]);
    all.count = 0;
    for (unsigned i = 0; i < FAR_KNOCKING; i++)
        turn_away(&all.knocking[i]);
}

void far_keys_changed(struct store *store, const struct keys *before)
{
    for (unsigned i = 0; i < FAR_KNOCKING; i++)
        turn_away(&all.knocking[i]); /* they may be proving a key of before */
    for (unsigned i = 0; i < STORE_PEERS; i++) {
        struct far *far = store->peer[i].far;
        const struct key *then, *now;

        if (store->peer[i].socket < 0 || far == NULL)
            continue;
        then = keys_find(before, wire_name(far->wire));
        now = keys_find(&store->keys, wire_name(far->wire));
        if (then != NULL && now != NULL &&
            memcmp(then->secret, now->secret, sizeof(now->secret)) == 0)
            continue;
        log_info("%s does not have that key any more: its connection is closed",
                 wire_name(far->wire));
        far->failed = -EKEYREVOKED;
    }
}

/* ---- a connection ---- */

void far_close(struct far *far)
{
    far->kind->close(far->lane);
    wire_close(far->wire);
    far_sources_lose(far->sources);
    free(far);
}

unsigned far_events(struct far *far, struct pollfd *events, unsigned room, bool *ready)
{
    if (room == 0)
        return 0;
    events[0] =
        (struct pollfd){.fd = wire_descriptor(far->wire), .events = wire_events(far->wire, ready)};
    *ready |= far->failed != 0;
    return 1 + far->kind->watch(far->lane, events + 1, room - 1, ready);
}

int far_step(struct far *far)
{
    uint64_t now;
    int error = far->failed;

    if (error == 0)
        error = far->kind->turn(far->lane);
    if (error == 0)
        error = wire_flush(far->wire);
    if (error == -EAGAIN)
        error = wire_queued(far->wire) > QUEUED ? -ETIMEDOUT : 0;
    now = portus_now(); /* after the turn, in which reads may have ended */
    if (error == 0 && (now - wire_heard(far->wire) > SILENT_NS ||
                       (far->reads_since != 0 && now - far->reads_since > ANSWER_NS)))
        error = -ETIMEDOUT;
    return error;
}

int far_receive(struct far *far, struct portus_message *message, const void **bytes, size_t *length)
{
    /* As many as one says: then others have their turn. */
    for (unsigned i = 0; i < HEARD_A_TURN; i++) {
        int error = wire_receive(far->wire, message, bytes, length);

        if (error != 0)
            return error;
        error = far->kind->hear(far->lane, message, *bytes, *length);
        if (error == -ENOMSG)
            return 0;
        if (error != 0)
            return error;
    }
    return -EAGAIN;
}

bool far_lands(const struct far *far)
{
    return all.lands && far->kind->keep != NULL;
}

void far_send(struct far *far, const struct portus_message *message)
{
    int error =
        wire_queued(far->wire) > QUEUED ? -ETIMEDOUT : wire_send(far->wire, message, NULL, 0);

    if (far->failed == 0)
        far->failed = error;
}

int far_push(struct far *far, const struct portus_message *message, const void *bytes)
{
    return far->kind->push(far->lane, message, bytes, message->error == 0 ? message->flags : 0);
}

const char *far_who(const struct far *far)
{
    return wire_name(far->wire);
}
