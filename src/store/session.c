/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.c -- portusd's connections: who may come in, and what they ask for
 *
 * Who they are the socket knows. Only processes of the pool's owner are let in; where the
 * store is shared all users' are, so many of each, and each sees what its user handed over
 * (share.c). One that breaks the protocol loses its connection; files that it had sent
 * before are kept all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "common/message.h"
#include "store/change.h"
#include "store/hand.h"
#include "store/metrics.h"
#include "store/pull.h"
#include "store/rings.h"
#include "store/state.h"

#define MESSAGES_A_TURN 64
#define PACKETS_A_TURN 16
#define DEAF_NS 1000000000ull
#define FAR_EVENTS (FAR_KNOCKING + FAR_LISTENERS)
#define FIXED 3 /* listener, signals, metrics */
#define EVENTS (FIXED + 4 * STORE_PEERS + FAR_EVENTS)

static void hang_up(struct store *store, unsigned place)
{
    if (store->peer[place].far != NULL)
        far_close(store->peer[place].far); /* first: nothing is read into what is freed now */
    else
        close(store->peer[place].socket);
    pull_gone(place, store->serial[place]);
    rings_gone(place, store->serial[place]);
    store->peer[place].far = NULL;
    store->peer[place].socket = -1;
    view_close(store->peer[place].view);
    store->peer[place].view = NULL;
    moved_close(store->peer[place].moved);
    store->peer[place].moved = NULL;
    import_close(store->peer[place].intake);
    store->peer[place].intake = NULL;
    store->serial[place]++;
}

/* Who is being listened to. */
static uint32_t speaks;
static bool hangs;

/* A descriptor that somebody has sent. */
static void let_go(int fd)
{
    hangs |= hand_close(speaks, fd) == -ETIMEDOUT;
}

void store_listen_to_strangers(void)
{
    portus_message_discard_by(let_go);
    hand_begin();
}

void store_shun(struct store *store, uint32_t uid)
{
    for (unsigned i = 0; i < STORE_PEERS; i++)
        if (store->peer[i].socket >= 0 && store->peer[i].uid == uid)
            hang_up(store, i);
    store_forget(store, uid);
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
    if (store->peer[peer].far != NULL)
        far_send(store->peer[peer].far, &message);
    else if (portus_message_send(store->peer[peer].socket, &message, NULL, 0) != 0)
        hang_up(store, peer);
}

void store_answer(struct store *store, uint32_t peer, uint32_t serial, uint32_t id, int error,
                  uint64_t number)
{
    store_tell(store, peer, serial, PORTUS_OP_STORE_DONE, id, error, number);
}

/* Says why, if it is there to hear it. What it has sent is not looked at. */
static void refuse(int fd, int error)
{
    struct portus_message answer = portus_message_make(PORTUS_OP_WELCOME);

    answer.error = error;
    portus_message_send(fd, &answer, NULL, 0);
    close(fd);
}

static uint64_t deaf_until;

void store_deafen(int error)
{
    deaf_until = portus_now() + DEAF_NS;
    if (store_may_tell())
        log_warn("nobody can be let in for a second: %s", strerror(error));
}

bool store_deaf(void)
{
    return portus_now() < deaf_until;
}

static void let_in(struct store *store)
{
    uint32_t pid, uid;
    int fd = accept4(store->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            store_deafen(errno);
        return;
    }
    if (!portus_message_who(fd, &uid, &pid) || !store_knows(uid) ||
        (!store->strangers && uid != store->self)) {
        if (store_may_tell())
            log_warn("a process of another user knocked: refused");
        refuse(fd, -EACCES);
        return;
    }
    if (hand_shuns(uid)) {
        refuse(fd, -ETIMEDOUT);
        return;
    }
    if (store_crowded(store, uid)) {
        if (store_may_tell())
            log_warn("user %u has as many connections as it may have: process %u is refused", uid,
                     pid);
        refuse(fd, -EUSERS);
        return;
    }
    for (unsigned i = 0; i < STORE_PEERS; i++)
        if (store->peer[i].socket < 0) {
            store->peer[i] = (struct store_peer){.socket = fd, .pid = pid, .uid = uid};
            return;
        }
    if (store_may_tell())
        log_warn("more than %d connections: process %u is refused", STORE_PEERS, pid);
    refuse(fd, -EUSERS);
}

/* ---- reading ---- */

static int open_view(struct store *store, unsigned place, uint64_t *head)
{
    struct store_peer *peer = &store->peer[place];
    const struct pool_share share = store_sight(store, peer->uid);
    int error;

    view_close(peer->view);
    peer->view = NULL;
    peer->read_left = 0;
    error = view_open(&peer->view, store->pool, &share);
    if (error == 0)
        *head = view_head(peer->view);
    return error;
}

/* Sends of what was asked for as much as is taken without waiting, and not too much. */
static void give_bytes(struct store *store, unsigned place)
{
    static char bytes[PORTUS_STORE_BYTES];
    struct store_peer *peer = &store->peer[place];

    for (unsigned i = 0; i < PACKETS_A_TURN && peer->read_left > 0; i++) {
        struct portus_message message = portus_message_make(PORTUS_OP_STORE_BYTES);
        int error;

        message.value = peer->read_id;
        message.flags = peer->read_left < sizeof(bytes) ? peer->read_left : sizeof(bytes);
        message.error = view_read(peer->view, peer->read_offset, bytes, message.flags);
        if (message.error != 0)
            message.flags = 0;
        error = peer->far != NULL ? far_push(peer->far, &message, bytes)
                                  : portus_message_send_bytes(peer->socket, &message, bytes);
        if (error == -EAGAIN)
            return;
        if (error != 0) {
            hang_up(store, place);
            return;
        }
        peer->read_offset += message.flags;
        peer->read_left = message.error != 0 ? 0 : peer->read_left - message.flags;
    }
}

/* ---- files ---- */

int store_queue_may(const struct store *store, unsigned place)
{
    if (store->ending)
        return -ECANCELED;
    return store->queued - store->taken == STORE_QUEUE ||
                   (store->shared &&
                    store_waiting(store, store->peer[place].uid) >= STORE_QUEUE_USER)
               ? -EBUSY
               : 0;
}

/*
 * Listings of a user's files that wait take no more than one may: of so many the last ones tell
 * whether a directory is whole, and the commits of the others are not settled.
 */
static void drop_listings(struct store *store, uint32_t uid, int listed)
{
    struct stat status;
    uint64_t bytes = listed >= 0 && fstat(listed, &status) == 0 ? (uint64_t)status.st_size : 0;

    for (uint64_t i = store->queued; i-- > store->taken && bytes > 0;) {
        struct store_file *file = &store->queue[i % STORE_QUEUE];

        if (!origin_is(file) || file->uid != uid || file->listed < 0 ||
            fstat(file->listed, &status) < 0)
            continue;
        bytes += (uint64_t)status.st_size;
        if (bytes <= LISTING_MOST)
            continue;
        close(file->listed);
        file->listed = -1;
    }
}

void store_queue(struct store *store, unsigned place, const struct portus_message *message, int fd,
                 struct far_file *far, int listed)
{
    drop_listings(store, store->peer[place].uid, listed);
    store->queue[store->queued++ % STORE_QUEUE] =
        (struct store_file){.fd = fd,
                            .far = far,
                            .listed = listed,
                            .peer = place,
                            .serial = store->serial[place],
                            .id = message->value,
                            .uid = store->peer[place].uid,
                            .last = (message->flags & PORTUS_STORE_LAST) != 0,
                            .pulled = (message->flags & PORTUS_STORE_PULLED) != 0,
                            .kept = (message->flags & PORTUS_STORE_KEPT) != 0,
                            .directory = message->size,
                            .job = store->peer[place].job};
}

static int queue(struct store *store, unsigned place, const struct portus_message *message, int fd,
                 int listed)
{
    struct store_peer *peer = &store->peer[place];
    int flags = fcntl(fd, F_GETFL), error;
    struct stat status;

    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY ||
        (listed >= 0 && !listing_sealed(listed)))
        return -EPROTO;
    error = store_queue_may(store, place);
    if (error != 0) {
        pull_drop(place, store->serial[place], message->value);
        store_answer(store, place, store->serial[place], message->value, error, 0);
        let_go(fd);
        if (listed >= 0)
            close(listed);
        return 0;
    }
    error = hand_stat(peer->uid, fd, &status);
    if (error == -ETIMEDOUT) {
        store_shun(store, peer->uid);
        if (listed >= 0)
            close(listed);
        return 0;
    }
    if (error != 0 || !S_ISREG(status.st_mode))
        return -EPROTO;
    store_queue(store, place, message, fd, NULL, listed);
    return 0;
}

/* Memory: to ask it for bytes never blocks. One that could become smaller under a mapping is none
 * of ours. */
static bool is_ring(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* What belongs to pulling. 0, or a negative errno: hang up. */
static int hear_pull(struct store *store, unsigned place, const struct portus_message *message,
                     const int *fds, unsigned count)
{
    int error = -EPROTO;

    switch (message->op) {
    case PORTUS_OP_STORE_RING:
        if (count == 0 || (count == 1 && is_ring(fds[0])))
            return rings_offered(store, place, message, count == 1 ? fds[0] : -1);
        break;
    case PORTUS_OP_STORE_DRAFT:
        if (count <= 2)
            error = pull_draft(store, place, message, fds, count, NULL);
        break;
    case PORTUS_OP_STORE_PULL:
        if (count == 0)
            return rings_filled(store, place, message);
        break;
    case PORTUS_OP_STORE_SEAL:
        if (count == 0) {
            pull_seal(store, place, message, NULL);
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
        let_go(fds[i]);
    return error;
}

int store_hear_plain(struct store *store, unsigned place, const struct portus_message *message)
{
    struct store_peer *peer = &store->peer[place];
    const struct pool_share sight = store_sight(store, peer->uid);
    uint64_t number = 0;
    int error;

    if (message->op == PORTUS_OP_STORE_CANCEL) {
        store_cancel(store, place, message->value);
        return 0;
    }
    if ((message->op == PORTUS_OP_STORE_SCRUB || message->op == PORTUS_OP_STORE_SCRUBBED) &&
        sight.everyone) {
        error = store_tend_hear(store, message->op, message->size, message->flags, &number);
        store_answer(store, place, store->serial[place], message->value, error, number);
        return 0;
    }
    if (message->op == PORTUS_OP_STORE_READ) {
        if (peer->view == NULL || message->flags == 0 || message->flags > PORTUS_STORE_READ)
            return -EPROTO;
        peer->read_offset = message->size;
        peer->read_left = message->flags;
        peer->read_id = message->value;
        return -EAGAIN;
    }
    if (message->op == PORTUS_OP_STORE_VIEW)
        error = open_view(store, place, &number);
    else if (message->op == PORTUS_OP_STORE_ALIVE)
        error = 0;
    else if (pool_changes(message->op))
        error = pool_change(store->pool, &sight, message->op, message->size, message->flags,
                            store->keep, &number);
    else
        return -EPROTO;
    store_answer(store, place, store->serial[place], message->value, error, number);
    return 0;
}

/* Handles one message. 0, or a negative errno: hang up. */
static int hear(struct store *store, unsigned place)
{
    struct store_peer *peer = &store->peer[place];
    struct portus_message message, answer = portus_message_make(PORTUS_OP_WELCOME);
    static char bytes[PORTUS_STORE_BYTES];
    int fds[PORTUS_MESSAGE_FDS];
    struct pool_state state;
    unsigned count = 0;
    int error =
        portus_message_receive_any(peer->socket, &message, fds, &count, bytes, sizeof(bytes));

    if (error != 0)
        return error;
    if (message.op == PORTUS_OP_STORE_FILE && peer->welcomed && (count == 1 || count == 2)) {
        error = queue(store, place, &message, fds[0], count == 2 ? fds[1] : -1);
        if (error == 0)
            return 0;
    }
    if (message.op == PORTUS_OP_STORE_RENAMED && peer->welcomed && count == 1) {
        error = 0;
        peer->moved_id = message.value;
        if (store->shared)
            error = moved_open(&peer->moved, fds[0], peer->uid, NULL);
        else
            store_follow(store, fds[0]);
        let_go(fds[0]);
        if (!store->shared)
            store_answer(store, place, store->serial[place], message.value, 0, 0);
        return error != 0 ? error : store->shared ? -EAGAIN : 0; /* that is done first */
    }
    if (message.op >= PORTUS_OP_STORE_RING && message.op <= PORTUS_OP_STORE_SEAL && peer->welcomed)
        return hear_pull(store, place, &message, fds, count);
    for (unsigned i = 0; i < count; i++)
        let_go(fds[i]);
    if (count != 0)
        return -EPROTO;
    if (!peer->welcomed) {
        if (message.op != PORTUS_OP_HELLO || message.value != PORTUS_ROLE_KEEP)
            return -EPROTO;
        peer->welcomed = true;
        peer->job = message.size;
        pool_look(store->pool, &state);
        answer.flags = PORTUS_WELCOME_STORE | (state.durable ? PORTUS_WELCOME_DURABLE : 0);
        error = portus_message_send(peer->socket, &answer, NULL, 0);
        return error == -EAGAIN ? -ECONNRESET : error; /* it would wait for it in vain */
    }
    if (import_is(message.op))
        return import_hear(store, place, &message, bytes,
                           message.op == PORTUS_OP_STORE_KEEP ? 0 : message.flags);
    return store_hear_plain(store, place, &message);
}

/* A part of what each peer's files that have moved need; whether there is more. */
static bool follow(struct store *store)
{
    bool more = false;

    for (unsigned i = 0; i < STORE_PEERS; i++) {
        struct store_peer *peer = &store->peer[i];

        if (peer->socket < 0 || peer->moved == NULL)
            continue;
        if (moved_step(store, peer->moved)) {
            more = true;
            continue;
        }
        moved_close(peer->moved);
        peer->moved = NULL;
        store_answer(store, i, store->serial[i], peer->moved_id, 0, 0);
    }
    return more;
}

/* All that a peer of this machine has to say, or to get, for now. */
static int serve_near(struct store *store, unsigned place)
{
    uint32_t serial = store->serial[place];
    int error = 0;

    if (store->peer[place].read_left > 0) {
        give_bytes(store, place);
        return 0;
    }
    for (unsigned i = 0; i < MESSAGES_A_TURN && error == 0; i++) {
        speaks = store->peer[place].uid;
        hangs = false;
        error = hear(store, place);
        if (hangs)
            store_shun(store, speaks);
        if (store->serial[place] != serial)
            return 0; /* it was hung up */
    }
    return error;
}

/* All that a peer on another machine has to say and to get, for now. */
static int serve_far(struct store *store, unsigned place)
{
    int error = far_step(store->peer[place].far);

    for (unsigned i = 0; i < MESSAGES_A_TURN && error == 0; i++)
        error = store_hear_far(store, place);
    if (error == -EAGAIN && store->peer[place].read_left > 0)
        give_bytes(store, place);
    return error;
}

/* Hears and answers a peer; one that breaks the protocol, or has gone, is hung up. */
static void serve(struct store *store, unsigned place)
{
    uint32_t serial = store->serial[place];
    bool far = store->peer[place].far != NULL;
    int error = far ? serve_far(store, place) : serve_near(store, place);

    if (error == 0 || error == -EAGAIN || store->serial[place] != serial)
        return;
    if (far && error != -ECONNRESET)
        log_info("%s: its connection is closed: %s", far_who(store->peer[place].far),
                 portus_address_why(error));
    else if (error != -ECONNRESET && store_may_tell())
        log_warn("process %u broke the protocol (%s): its connection is closed",
                 store->peer[place].pid, strerror(-error));
    hang_up(store, place);
}

int store_listen(struct store *store, int signals, int milliseconds)
{
    static struct pollfd events[EVENTS];
    static uint32_t who[EVENTS];
    unsigned count = FIXED, knocking;

    if (follow(store))
        milliseconds = 0;
    events[0] = (struct pollfd){
        .fd = store_deaf() ? -1 : store->listener,
        .events = POLLIN,
    };
    events[1] = (struct pollfd){.fd = signals, .events = POLLIN};
    events[2] = (struct pollfd){.fd = metrics_descriptor(), .events = POLLIN};
    for (unsigned i = 0; i < STORE_PEERS; i++) {
        const struct store_peer *peer = &store->peer[i];
        unsigned more = 1;
        bool ready = false;

        if (peer->socket < 0 || peer->moved != NULL)
            continue;
        if (peer->far != NULL)
            more = far_events(peer->far, &events[count], EVENTS - FAR_EVENTS - count, &ready);
        else
            events[count] = (struct pollfd){
                .fd = peer->socket,
                .events = peer->read_left > 0 ? POLLOUT : POLLIN,
            };
        while (more-- > 0)
            who[count++] = i;
        if (ready)
            milliseconds = 0;
    }
    knocking = far_watch(&events[count], EVENTS - count);
    if (poll(events, count + knocking, milliseconds) < 0)
        return errno == EINTR ? 0 : -errno;
    far_listen_turn(store);
    for (unsigned i = FIXED; i < count; i++) {
        const struct store_peer *peer = &store->peer[who[i]];

        if (peer->socket < 0 || (i > FIXED && who[i] == who[i - 1]))
            continue; /* its lane's other descriptors were looked at with the first */
        if (peer->far != NULL || events[i].revents)
            serve(store, who[i]);
    }
    if (events[0].revents)
        let_in(store);
    return 0;
}
