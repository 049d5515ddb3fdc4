/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c -- finds a store of a list that answers, and is let in by it
 *
 * Each is given a few seconds; the next one is tried when it does not answer, does not know
 * the key, or is of another version. What is said of it is the most telling reason: that
 * a host is down is no news beside a key that is not known.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "carrier/carrier.h"
#include "common/futex.h"
#include "common/host.h"
#include "common/log.h"
#include "common/message.h"
#include "portus/portus.h"

#define CONNECT_MS 4000
#define WELCOME_NS 5000000000ull

static int wait_message(struct wire *wire, struct portus_message *message, const void **bytes,
                        size_t *length)
{
    uint64_t until = portus_now() + WELCOME_NS;

    for (;;) {
        int error = wire_receive(wire, message, bytes, length);
        struct pollfd event = {.fd = wire_descriptor(wire)};
        bool ready;

        if (error != -EAGAIN)
            return error;
        wire_flush(wire);
        event.events = wire_events(wire, &ready);
        if (portus_now() > until)
            return -ETIMEDOUT;
        if (!ready)
            poll(&event, 1, 100);
    }
}

int carrier_join_one(struct joined *joined, const struct portus_address *address,
                     const struct key *key, const struct portus_message *hello,
                     const struct transport_client *client)
{
    struct portus_far_hello who = {0};
    struct utsname host;
    const void *nothing;
    size_t length;
    int error;

    *joined = (struct joined){.kind = transport_find(address->scheme)};
    error = wire_connect(&joined->wire, address, key, CONNECT_MS);
    if (error != 0)
        return error;
    host_id(who.machine);
    snprintf(who.release, sizeof(who.release), "%s", PORTUS_VERSION);
    if (uname(&host) == 0)
        snprintf(who.host, sizeof(who.host), "%.63s", host.nodename);
    error = wire_send(joined->wire, hello, &who, sizeof(who));
    if (error == 0)
        error = wait_message(joined->wire, &joined->welcome, &nothing, &length);
    if (error == 0 &&
        (joined->welcome.op != PORTUS_OP_WELCOME || joined->welcome.error > 0 || length != 0))
        error = -EPROTO;
    if (error == 0)
        error = joined->welcome.error;
    if (error == 0)
        error = joined->kind->open(&joined->lane, joined->wire, client);
    if (error != 0) {
        wire_close(joined->wire);
        joined->wire = NULL;
    }
    return error;
}

/* The higher, the more there is to be done about it by who has configured it. */
static int telling(int error)
{
    switch (error) {
    case -EKEYREJECTED:
    case -EPROTONOSUPPORT:
    case -ENODEV:
        return 3;
    case -EUSERS:
    case -EPROTO:
        return 2;
    case -EADDRNOTAVAIL:
        return 1;
    default:
        return 0;
    }
}

int carrier_join(struct joined *joined, const char *stores, unsigned first, const char *key,
                 const struct portus_message *hello, const struct transport_client *client)
{
    unsigned count = portus_address_count(stores);
    struct portus_address address;
    struct keys keys = {0};
    int error = count == 0 ? -EINVAL : key[0] == '\0' ? -ENOKEY : keys_load(&keys, key);

    if (error == 0 && keys.count != 1) {
        log_error("%s: a client's file has one key, this one has %zu", key, keys.count);
        error = -EINVAL;
    }
    if (error == -EACCES || error == -ENOENT || error == -EINVAL)
        error = -ENOKEY;
    for (unsigned i = 0; i < count && keys.count == 1; i++) {
        unsigned number = (first + i) % count;
        int this_one = -EINVAL;

        if (portus_address_get(&address, stores, number))
            this_one = carrier_join_one(joined, &address, keys.key, hello, client);
        if (this_one == 0) {
            joined->number = number;
            error = 0;
            break;
        }
        log_info("%s: %s", address.text, portus_address_why(this_one));
        if (error == 0 || telling(this_one) > telling(error))
            error = this_one;
    }
    keys_free(&keys);
    return error;
}
