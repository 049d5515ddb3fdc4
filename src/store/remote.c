/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.c -- the pool of a portusd of another user or machine, read through its socket
 *
 * portusd shows this user's part of its pool as bytes in a pool's format (view.c). Their
 * head, all but the bytes of the versions, is fetched when it is opened; from there on it
 * is a pool like any other, and nothing that portusd says is believed without the checks
 * that a pool's memory gets. Each answer is waited for a bounded time.
 */
#include "store/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/address.h"
#include "common/log.h"
#include "common/message.h"
#include "common/name.h"
#include "store/pool_private.h"

#define ANSWER_MS 30000
#define FAR_MS 90000 /* of several each may take its time */
/* What a portusd that lies can have us take: a catalogue of 30 million versions, 64 TiB. */
#define HEAD_MOST (4ull << 30)
#define SIZE_MOST (1ull << 46)

struct remote {
    int socket;
    uint32_t id;
};

bool remote_is(const char *name)
{
    return portus_address_is(name) ||
           strncmp(name, PORTUS_NAME_UNIX, strlen(PORTUS_NAME_UNIX)) == 0;
}

static int (*dial)(const char *name);

void remote_dial_by(int (*by)(const char *name))
{
    dial = by;
}

static int connect_near(const char *name)
{
    const struct timeval patience = {.tv_sec = ANSWER_MS / 1000};
    struct sockaddr_un address;
    socklen_t length;
    int error = portus_name_store(&address, &length, name), fd;

    if (error != 0)
        return error;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* Where nobody accepts, connect waits. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, length) < 0) {
        error = errno == EAGAIN ? -ETIMEDOUT : -errno;
        close(fd);
        return error;
    }
    return fd;
}

int remote_connect(const char *name)
{
    struct portus_message message = portus_message_make(PORTUS_OP_HELLO);
    int patience = portus_address_is(name) ? FAR_MS : ANSWER_MS, error, fd;

    if (portus_address_is(name))
        fd = dial != NULL ? dial(name) : -EPROTOTYPE;
    else
        fd = connect_near(name);
    if (fd < 0)
        return fd;
    message.value = PORTUS_ROLE_KEEP;
    error = portus_message_send(fd, &message, NULL, 0);
    /* One that refuses may have said why, and gone, before it heard anything. */
    if (error == 0 || error == -EPIPE)
        error = portus_message_receive_bytes(fd, &message, NULL, 0, patience);
    if (error == -ECONNRESET)
        error = portus_message_receive_bytes(fd, &message, NULL, 0, patience);
    if (error == 0)
        error = message.op == PORTUS_OP_WELCOME ? message.error : -EPROTO;
    if (error != 0) {
        close(fd);
        return error == -EAGAIN ? -ETIMEDOUT : error;
    }
    return fd;
}

int remote_ask(int socket, unsigned op, uint64_t number, unsigned flags, uint64_t *answer)
{
    struct portus_message message = portus_message_make((enum portus_op)op);
    int error;

    message.size = number;
    message.flags = flags;
    error = portus_message_send(socket, &message, NULL, 0);
    return error != 0 ? error : remote_answer(socket, answer);
}

int remote_answer(int socket, uint64_t *answer)
{
    struct portus_message message;
    int error = portus_message_receive_bytes(socket, &message, NULL, 0, ANSWER_MS);

    if (error != 0)
        return error == -EAGAIN ? -ETIMEDOUT : error;
    if (message.op != PORTUS_OP_STORE_DONE || message.error > 0)
        return -EPROTO;
    if (message.error == 0)
        *answer = message.size;
    return message.error;
}

static int fetch_piece(struct remote *remote, uint64_t offset, char *to, uint32_t length)
{
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_READ);
    uint32_t got = 0;
    int error;

    message.value = ++remote->id;
    message.size = offset;
    message.flags = length;
    error = portus_message_send(remote->socket, &message, NULL, 0);
    while (error == 0 && got < length) {
        error = portus_message_receive_bytes(remote->socket, &message, to + got, length - got,
                                             ANSWER_MS);
        if (error == 0 && (message.op != PORTUS_OP_STORE_BYTES || message.value != remote->id ||
                           message.error > 0 || (message.error == 0 && message.flags == 0)))
            error = -EPROTO;
        if (error == 0)
            error = message.error;
        if (error == 0)
            got += message.flags;
    }
    return error == -EAGAIN ? -ETIMEDOUT : error;
}

static int fetch(struct map *map, uint64_t offset, void *to, size_t length)
{
    struct remote *remote = map->self;
    char *at = to;
    int error = 0;

    while (length > 0 && error == 0) {
        uint32_t piece = length < PORTUS_STORE_READ ? (uint32_t)length : PORTUS_STORE_READ;

        error = fetch_piece(remote, offset, at, piece);
        offset += piece;
        at += piece;
        length -= piece;
    }
    if (error != 0 && error != -ESTALE)
        log_error("%s: portusd: %s", map->path, strerror(-error));
    return error;
}

static void end(struct map *map)
{
    struct remote *remote = map->self;

    close(remote->socket);
    munmap(map->base, map->local);
    free(remote);
}

/* Superblocks, catalogue and bodies. What lies between the superblocks is nothing. */
static int fetch_head(struct map *map)
{
    int error = fetch(map, 0, map->base, PORTUS_POOL_PAGE);

    if (error == 0)
        error = fetch(map, PORTUS_POOL_SECOND, map->base + PORTUS_POOL_SECOND,
                      map->local - PORTUS_POOL_SECOND);
    return error;
}

static int make_map(struct map **out, struct remote *remote, const char *name, uint64_t head)
{
    struct map *map;
    char *base;
    int error;

    if (head < PORTUS_POOL_SECOND + PORTUS_POOL_PAGE || head > HEAD_MOST)
        return -EPROTO;
    base = mmap(NULL, head, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
    if (base == MAP_FAILED)
        return -errno;
    error = map_memory(&map, base, SIZE_MOST, SIZE_MOST, NULL, remote);
    if (error != 0) {
        munmap(base, head);
        return error;
    }
    strncpy(map->path, name, sizeof(map->path) - 1);
    map->kind = "portusd";
    map->durable = true; /* who runs it knows */
    map->writable = false;
    map->local = head;
    map->fetch = fetch;
    map->end = end;
    *out = map;
    return 0;
}

int remote_open(struct pool **out, const char *name)
{
    struct remote *remote = calloc(1, sizeof(*remote));
    struct map *map = NULL;
    uint64_t head = 0;
    int error = remote == NULL ? -ENOMEM : 0;

    if (error == 0) {
        remote->socket = remote_connect(name);
        error = remote->socket < 0 ? remote->socket : 0;
    }
    if (error == 0) {
        error = remote_ask(remote->socket, PORTUS_OP_STORE_VIEW, 0, 0, &head);
        if (error == 0)
            error = make_map(&map, remote, name, head);
        if (error != 0)
            close(remote->socket);
    }
    if (error != 0) {
        log_error("%s: %s%s", name,
                  portus_address_is(name) ? portus_address_why(error) : strerror(-error),
                  portus_address_is(name)                      ? ""
                  : error == -ECONNREFUSED || error == -ENOENT ? ": no portusd listens there"
                                                               : "");
        free(remote);
        return error;
    }
    error = fetch_head(map);
    if (error != 0) {
        map_close(map);
        return error;
    }
    return pool_open_map(out, map, false);
}
