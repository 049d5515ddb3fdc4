// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor_store.c -- portusctl doctor: a store on another machine
 *
 * Reaches it as an agent would, and measures what a pull and a restore can have at most: how
 * long a question takes, how fast the store pulls out of a ring, and how fast bytes come from
 * there. What it pulls is dropped: nothing is kept there, and nothing goes to make room.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "carrier/carrier.h"
#include "common/address.h"
#include "common/futex.h"
#include "common/message.h"
#include "ctl/doctor.h"
#include "ctl/text.h"
#include "portus/ring.h"
#include "store/remote.h"

#define QUESTIONS 20
#define ANSWER_NS 5000000000ull
#define MEASURE_NS 1000000000ull
#define PULL (64u << 20)   /* bytes, in records of a chunk */
#define ROOM (4ull * PULL) /* so much must be free: nothing is to go for this */

struct probe {
    struct joined store;
    struct transport_client client;
    uint64_t got; /* bytes */
    int error;
};

static void pushed(void *self, const struct portus_message *message, const void *bytes,
                   size_t length)
{
    struct probe *probe = self;

    probe->got += length;
    if (message->error != 0)
        probe->error = message->error;
}

/* One message of the store's; waits for it. */
static int hear(struct probe *probe, struct portus_message *message)
{
    uint64_t until = portus_now() + ANSWER_NS;
    struct joined *store = &probe->store;
    const void *bytes;
    size_t length;

    for (;;) {
        struct pollfd events[9];
        unsigned count = 1;
        bool ready;
        int error = wire_receive(store->wire, message, &bytes, &length);

        if (error == 0) {
            error = store->kind->hear(store->lane, message, bytes, length);
            return error == -ENOMSG ? 0 : error;
        }
        if (error != -EAGAIN)
            return error;
        if (portus_now() > until)
            return -ETIMEDOUT;
        events[0].fd = wire_descriptor(store->wire);
        events[0].events = wire_events(store->wire, &ready);
        count += store->kind->watch(store->lane, events + 1, 8, &ready);
        if (!ready)
            poll(events, count, 100);
        error = store->kind->turn(store->lane);
        if (error != 0)
            return error;
    }
}

static int ask(struct probe *probe, enum portus_op op, uint64_t *answer)
{
    struct portus_message message = portus_message_make(op);
    int error = wire_send(probe->store.wire, &message, NULL, 0);

    if (error == 0)
        error = hear(probe, &message);
    if (error == 0)
        error = message.op == PORTUS_OP_STORE_DONE ? message.error : -EPROTO;
    if (error == 0)
        *answer = message.size;
    return error;
}

/* The shortest time of an answer. */
static int measure_answers(struct probe *probe, uint64_t *best)
{
    uint64_t answer;
    int error = 0;

    *best = UINT64_MAX;
    for (unsigned i = 0; i < QUESTIONS && error == 0; i++) {
        uint64_t began = portus_now();

        error = ask(probe, PORTUS_OP_STORE_ALIVE, &answer);
        if (error == 0 && portus_now() - began < *best)
            *best = portus_now() - began;
    }
    return error;
}

/* The head of this user's view again and again: nobody's checkpoint is needed for it. */
static int measure_bytes(struct probe *probe, uint64_t *per_second)
{
    uint64_t head, began, now;
    struct portus_message message;
    int error = ask(probe, PORTUS_OP_STORE_VIEW, &head);

    began = now = portus_now();
    while (error == 0 && now - began < MEASURE_NS) {
        struct portus_message want = portus_message_make(PORTUS_OP_STORE_READ);
        uint64_t before = probe->got;

        want.flags = head < PORTUS_STORE_READ ? (uint32_t)head : PORTUS_STORE_READ;
        error = wire_send(probe->store.wire, &want, NULL, 0);
        while (error == 0 && probe->error == 0 && probe->got - before < want.flags)
            error = hear(probe, &message);
        if (error == 0)
            error = probe->error;
        now = portus_now();
    }
    if (error == 0)
        *per_second = probe->got * 1000000000ull / (now - began);
    return error;
}

/* A ring that is filled, as a program's would be. A descriptor, or a negative errno. */
static int make_ring(void)
{
    uint64_t bytes = PORTUS_RING_DATA + PULL;
    struct portus_record *ring;
    int fd = memfd_create("portus-doctor", MFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) < 0 ||
        (ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        int error = -errno;

        close(fd);
        return error;
    }
    memset((char *)ring + PORTUS_RING_DATA, 0x5a, PULL);
    for (uint64_t i = 0; i < PULL / PORTUS_CHUNK; i++)
        ring[i] = (struct portus_record){.stamp = i + 1,
                                         .offset = i * PORTUS_CHUNK,
                                         .data = i * PORTUS_CHUNK,
                                         .length = PORTUS_CHUNK};
    munmap(ring, bytes);
    return fd;
}

/* Has a ring pulled into a draft, which is dropped. */
static int measure_pull(struct probe *probe, uint64_t *per_second)
{
    struct offers offers = {.kind = probe->store.kind, .lane = probe->store.lane};
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_RING);
    int fd = make_ring(), self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), error;
    void *name = NULL;
    size_t length = 0;
    uint64_t began;

    error = fd < 0 ? fd : self < 0 ? -errno : offers_describe(self, -1, &name, &length);
    if (error == 0)
        error = offers_add(&offers, OFFER_RING, 1, fd);
    else if (fd >= 0)
        close(fd);
    message.value = message.flags = 1;
    if (error == 0)
        error = wire_send(probe->store.wire, &message, NULL, 0);
    message = portus_message_make(PORTUS_OP_STORE_DRAFT);
    message.value = 1;
    message.flags = 1 << 16;
    if (error == 0)
        error = wire_send(probe->store.wire, &message, name, length);
    message = portus_message_make(PORTUS_OP_STORE_PULL);
    message.value = 1;
    message.size = PULL / PORTUS_CHUNK;
    began = portus_now();
    if (error == 0)
        error = wire_send(probe->store.wire, &message, NULL, 0);
    do
        error = error == 0 ? hear(probe, &message) : error;
    while (error == 0 && message.op != PORTUS_OP_STORE_PULLED);
    if (error == 0)
        *per_second = PULL * 1000000000ull / (portus_now() - began);
    message = portus_message_make(PORTUS_OP_STORE_DROP);
    message.value = 1;
    if (error == 0)
        error = wire_send(probe->store.wire, &message, NULL, 0);
    message = portus_message_make(PORTUS_OP_STORE_RING);
    message.value = 1;
    if (error == 0)
        error = wire_send(probe->store.wire, &message, NULL, 0);
    offers_drop_all(&offers);
    free(name);
    if (self >= 0)
        close(self);
    return error;
}

/* Whether there is room for that, beside what is kept. */
static bool has_room(const char *store)
{
    struct pool_state state = {0};
    struct pool *pool;

    if (remote_open(&pool, store) != 0)
        return false;
    pool_look(pool, &state);
    pool_close(pool);
    return state.free >= ROOM;
}

static const char *advice(int error)
{
    switch (error) {
    case -EKEYREJECTED:
        return "put the line of PORTUS_KEY's file into the store's file of keys, and send its "
               "portusd SIGHUP";
    case -EPROTONOSUPPORT:
        return "install the same version on both machines";
    case -EADDRNOTAVAIL:
        return "name a host that this one can find, or its address";
    case -ECONNREFUSED:
        return "start portusd --listen tcp://... --keys FILE there, or name its port";
    case -ETIMEDOUT:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
        return "open the port between the machines, or look whether the store's runs";
    case -EUSERS:
        return "raise sessions of the key in the store's portusd.conf";
    case -EPROTOTYPE:
    case -ENODEV:
        return "use tcp:// or a build and a machine with RDMA";
    default:
        return "see the line of portusd on the store's machine";
    }
}

static bool load_key(struct doctor *doctor, struct keys *keys)
{
    const char *path = doctor->env->key;
    static bool said;
    int error = path[0] == '\0' ? -ENOKEY : keys_load(keys, path);

    if (error == 0 && keys->count != 1) {
        keys_free(keys);
        error = -EINVAL;
    }
    if (error == 0 && said)
        return true;
    said = true;
    if (error == 0)
        doctor_say(doctor, WORKS, "key", "", "%s has the key of %s", path, keys->key->name);
    else if (error == -ENOKEY)
        doctor_say(doctor, SLOWER, "key", "portusctl key NAME FILE, and PORTUS_KEY=FILE",
                   "PORTUS_KEY is not set: no store on another machine lets this user in");
    else
        doctor_say(doctor, SLOWER, "key",
                   error == -EACCES ? "chmod 600 it; a new key if others may have read it"
                                    : "one line in it, as portusctl key makes it",
                   "%s cannot be used: %s", path,
                   error == -EINVAL   ? "a client's file has one key"
                   : error == -EACCES ? "others may read it, or it is another user's"
                                      : strerror(-error));
    return error == 0;
}

static void examine(struct doctor *doctor, const struct portus_address *address,
                    const struct key *key)
{
    static struct probe probe;
    struct portus_message hello = portus_message_make(PORTUS_OP_HELLO);
    uint64_t began, answer = 0, speed = 0, pull = 0, connected;
    char bytes[TEXT_BYTES], pulled[TEXT_BYTES + 32] = "not measured, as there is no room";
    bool room = has_room(address->text); /* before: a link is none for a forked child */
    int error;

    probe = (struct probe){.client = {.pushed = pushed, .self = &probe}};
    hello.value = PORTUS_ROLE_KEEP;
    began = portus_now();
    error = carrier_join_one(&probe.store, address, key, &hello, &probe.client);
    if (error != 0) {
        doctor_say(doctor, SLOWER, address->text, advice(error),
                   "checkpoints are not kept there: %s", portus_address_why(error));
        return;
    }
    connected = portus_now() - began;
    doctor_say(doctor, WORKS, address->text, "",
               "portusd at %s knows the key, speaks the same version and keeps in %s; connected "
               "in %.1f ms",
               wire_peer(probe.store.wire),
               probe.store.welcome.flags & PORTUS_WELCOME_DURABLE ? "persistent memory" : "a file",
               (double)connected / 1e6);
    error = measure_answers(&probe, &answer);
    if (error == 0)
        error = measure_bytes(&probe, &speed);
    if (error == 0 && room) {
        error = measure_pull(&probe, &pull);
        snprintf(pulled, sizeof(pulled), "%s a second", text_bytes(bytes, pull));
    }
    if (error != 0)
        doctor_say(doctor, SLOWER, address->text, advice(error), "it answers no more: %s",
                   portus_address_why(error));
    else
        doctor_say(doctor, WORKS, address->text, "",
                   "answers in %.2f ms; pulls: %s; gives back: %s a second; both %s",
                   (double)answer / 1e6, pulled, text_bytes(bytes, speed),
                   address->scheme == PORTUS_SCHEME_RDMA ? "by RDMA" : "encrypted");
    probe.store.kind->close(probe.store.lane);
    wire_close(probe.store.wire);
}

void doctor_store(struct doctor *doctor, const char *list)
{
    struct portus_address address;
    struct keys keys = {0};
    bool known = load_key(doctor, &keys);

    for (unsigned i = 0; portus_address_get(&address, list, i); i++)
        if (address.scheme == PORTUS_SCHEME_RDMA) {
            doctor_rdma(doctor);
            break;
        }
    if (portus_address_count(list) == 0)
        doctor_say(doctor, SLOWER, "store", "for example tcp://host, or tcp://host:7470",
                   "%s is no address", list);
    for (unsigned i = 0; known && portus_address_count(list) > i; i++)
        if (portus_address_get(&address, list, i))
            examine(doctor, &address, keys.key);
    keys_free(&keys);
}
