/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.c -- portusd's connections: who may come in, and what they ask for
 *
 * Only processes of the pool's owner are let in, by the uid that the socket knows. One
 * that breaks the protocol loses its connection; files that it had sent before are
 * kept all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/message.h"
#include "store/change.h"
#include "store/pull.h"
#include "store/state.h"

#define MESSAGES_A_TURN 64

static void hang_up(struct store *store, unsigned place)
{
    pull_gone(place, store->serial[place]);
    close(store->peer[place].socket);
    store->peer[place].socket = -1;
    store->serial[place]++;
}

unsigned store_peers(const struct store *store)
{
    unsigned count = 0;

    for (unsigned i = 0; i < STORE_PEERS; i++)
        count += store->peer[i].socket >= 0;
    return count;
}

const char *store_job(uint64_t job)
{
    static char name[24];

    snprintf(name, sizeof(name), "%016llx", (unsigned long long)job);
    return name;
}

void store_tell(struct store *store, uint32_t peer, uint32_t serial, enum portus_op op,
                uint32_t value, int error, uint64_t size)
{
    struct portus_message message = portus_message_make(op);

    if (store->serial[peer] != serial || store->peer[peer].socket < 0)
        return;
    message.value = value;
    message.error = error;
    message.size = size;
    /* One that does not read its answers gets none: it is not waited for. */
    if (portus_message_send(store->peer[peer].socket, &message, NULL, 0) != 0)
        hang_up(store, peer);
}

void store_answer(struct store *store, uint32_t peer, uint32_t serial, uint32_t id, int error,
                  uint64_t number)
{
    store_tell(store, peer, serial, PORTUS_OP_STORE_DONE, id, error, number);
}

static void let_in(struct store *store)
{
    uint32_t pid;
    int fd = accept4(store->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (!portus_message_peer(fd, &pid)) {
        log_warn("a process of another user knocked: refused");
        close(fd);
        return;
    }
    for (unsigned i = 0; i < STORE_PEERS; i++)
        if (store->peer[i].socket < 0) {
            store->peer[i] = (struct store_peer){.socket = fd, .pid = pid};
            return;
        }
    log_warn("more than %d connections: process %u is refused", STORE_PEERS, pid);
    close(fd);
}

static int queue(struct store *store, unsigned place, const struct portus_message *message, int fd)
{
    struct store_peer *peer = &store->peer[place];
    int flags = fcntl(fd, F_GETFL);
    struct stat status;

    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY ||
        fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return -EPROTO;
    if (store->listener < 0 || store->queued - store->taken == STORE_QUEUE) {
        store_answer(store, place, store->serial[place], message->value,
                     store->listener < 0 ? -ECANCELED : -EBUSY, 0);
        close(fd);
        return 0;
    }
    store->queue[store->queued++ % STORE_QUEUE] =
        (struct store_file){.fd = fd,
                            .peer = place,
                            .serial = store->serial[place],
                            .id = message->value,
                            .last = (message->flags & PORTUS_STORE_LAST) != 0,
                            .pulled = (message->flags & PORTUS_STORE_PULLED) != 0,
                            .kept = (message->flags & PORTUS_STORE_KEPT) != 0,
                            .directory = message->size,
                            .job = peer->job};
    return 0;
}

/* What belongs to pulling. 0, or a negative errno: hang up. */
static int hear_pull(struct store *store, unsigned place, const struct portus_message *message,
                     const int *fds, unsigned count)
{
    int error;

    switch (message->op) {
    case PORTUS_OP_STORE_RING:
        if (count <= 1)
            return pull_ring(store, place, message, count == 1 ? fds[0] : -1);
        break;
    case PORTUS_OP_STORE_DRAFT:
        error = count <= 1 ? pull_draft(store, place, message, count == 1 ? fds[0] : -1) : -EPROTO;
        for (unsigned i = 0; i < count; i++)
            close(fds[i]);
        return error;
    case PORTUS_OP_STORE_PULL:
        if (count == 0)
            return pull_more(store, place, message);
        break;
    case PORTUS_OP_STORE_SEAL:
        if (count == 0) {
            pull_seal(store, place, message);
            return 0;
        }
        break;
    case PORTUS_OP_STORE_DROP:
        if (count == 0) {
            pull_drop(place, store->serial[place], message->value);
            return 0;
        }
        break;
    }
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    return -EPROTO;
}

/* Handles one message. 0, or a negative errno: hang up. */
static int hear(struct store *store, unsigned place)
{
    struct store_peer *peer = &store->peer[place];
    struct portus_message message, answer = portus_message_make(PORTUS_OP_WELCOME);
    int fds[PORTUS_MESSAGE_FDS];
    struct pool_state state;
    unsigned count = 0;
    uint64_t number = 0;
    int error = portus_message_receive(peer->socket, &message, fds, &count, 0);

    if (error != 0)
        return error;
    if (message.op == PORTUS_OP_STORE_FILE && peer->welcomed && count == 1) {
        error = queue(store, place, &message, fds[0]);
        if (error == 0)
            return 0;
    }
    if (message.op == PORTUS_OP_STORE_RENAMED && peer->welcomed && count == 1) {
        store_follow(store, fds[0]);
        close(fds[0]);
        return 0;
    }
    if (message.op >= PORTUS_OP_STORE_RING && message.op <= PORTUS_OP_STORE_SEAL && peer->welcomed)
        return hear_pull(store, place, &message, fds, count);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    if (count != 0)
        return -EPROTO;
    if (!peer->welcomed) {
        if (message.op != PORTUS_OP_HELLO || message.value != PORTUS_ROLE_KEEP)
            return -EPROTO;
        peer->welcomed = true;
        peer->job = message.size;
        pool_look(store->pool, &state);
        answer.flags = PORTUS_WELCOME_STORE | (state.durable ? PORTUS_WELCOME_DURABLE : 0);
        return portus_message_send(peer->socket, &answer, NULL, 0);
    }
    if (message.op == PORTUS_OP_STORE_CANCEL) {
        store_cancel(store, place, message.value);
        return 0;
    }
    if (message.op == PORTUS_OP_STORE_SCRUB || message.op == PORTUS_OP_STORE_SCRUBBED) {
        error = store_tend_hear(store, message.op, message.size, message.flags, &number);
        store_answer(store, place, store->serial[place], message.value, error, number);
        return 0;
    }
    if (!pool_changes(message.op))
        return -EPROTO;
    error = pool_change(store->pool, message.op, message.size, message.flags, store->keep, &number);
    store_answer(store, place, store->serial[place], message.value, error, number);
    return 0;
}

bool store_listen(struct store *store, int signals, int milliseconds)
{
    static struct pollfd events[STORE_PEERS + 2];
    static uint32_t who[STORE_PEERS + 2];
    unsigned count = 2;

    events[0] = (struct pollfd){.fd = store->listener, .events = POLLIN};
    events[1] = (struct pollfd){.fd = signals, .events = POLLIN};
    for (unsigned i = 0; i < STORE_PEERS; i++)
        if (store->peer[i].socket >= 0) {
            who[count] = i;
            events[count++] = (struct pollfd){.fd = store->peer[i].socket, .events = POLLIN};
        }
    if (poll(events, count, milliseconds) <= 0)
        return false;
    for (unsigned i = 2; i < count; i++) {
        uint32_t serial = store->serial[who[i]];
        int error = events[i].revents ? 0 : -EAGAIN;

        for (unsigned j = 0; j < MESSAGES_A_TURN && error == 0; j++) {
            error = hear(store, who[i]);
            if (store->serial[who[i]] != serial)
                break; /* it was hung up */
        }
        if (error == 0 || error == -EAGAIN || store->serial[who[i]] != serial)
            continue;
        if (error != -ECONNRESET)
            log_warn("process %u broke the protocol (%s): its connection is closed",
                     store->peer[who[i]].pid, strerror(-error));
        hang_up(store, who[i]);
    }
    if (events[0].revents)
        let_in(store);
    return true;
}
