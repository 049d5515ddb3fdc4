/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c -- one message and its descriptors over a unix socket
 *
 * A packet socket keeps messages apart, so there is no partial message to
 * remember: what is not exactly one message of this version is refused.
 */
#include "common/message.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors that fit into the buffer, whose size is rounded up. */
#define ROOM ((CMSG_SPACE(sizeof(int) * PORTUS_MESSAGE_FDS) - CMSG_LEN(0)) / sizeof(int))

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * PORTUS_MESSAGE_FDS)];
};

struct portus_message portus_message_make(enum portus_op op)
{
    struct portus_message message = {.magic = PORTUS_PROTO_MAGIC,
                                     .version = PORTUS_PROTO_VERSION,
                                     .op = (uint16_t)op,
                                     .length = sizeof(message)};
    return message;
}

int portus_message_send(int socket, const struct portus_message *message, const int *fds,
                        unsigned count)
{
    struct iovec bytes = {(void *)message, sizeof(*message)};
    struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
    union control control;
    ssize_t sent;

    if (count > 0) {
        memset(&control, 0, sizeof(control));
        packet.msg_control = &control;
        packet.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&packet);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * count);
    }
    /* Raw: the shim interposes sendmsg. */
    do
        sent = syscall(SYS_sendmsg, socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static void plain_close(int fd)
{
    syscall(SYS_close, fd);
}

static void (*discard)(int fd) = plain_close;

void portus_message_discard_by(void (*by)(int fd))
{
    discard = by;
}

/* How many bytes are behind a message. */
static size_t behind(const struct portus_message *message)
{
    return message->op == PORTUS_OP_STORE_BYTES || message->op == PORTUS_OP_STORE_IMPORT
               ? message->flags
               : 0;
}

/* Whether what came is one message of this version, and what belongs to it, all of it. */
static bool is_whole(const struct portus_message *message, ssize_t length)
{
    return length >= (ssize_t)sizeof(*message) && message->magic == PORTUS_PROTO_MAGIC &&
           message->version == PORTUS_PROTO_VERSION && message->length == sizeof(*message) &&
           (size_t)length == sizeof(*message) + behind(message);
}

static int receive(int socket, struct portus_message *message, int *fds, unsigned *count,
                   void *bytes, uint32_t room, int flags)
{
    struct iovec parts[2] = {{message, sizeof(*message)}, {bytes, room}};
    union control control;
    struct msghdr packet = {.msg_iov = parts,
                            .msg_iovlen = 2,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    int received[ROOM];
    unsigned number = 0;
    ssize_t length;
    int error = 0;

    do
        length = recvmsg(socket, &packet, flags | MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&packet); c != NULL; c = CMSG_NXTHDR(&packet, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        number = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (number > ROOM)
            number = ROOM;
        memcpy(received, CMSG_DATA(c), sizeof(int) * number);
    }
    if (number > PORTUS_MESSAGE_FDS)
        error = -EMSGSIZE;
    else if (packet.msg_flags & MSG_CTRUNC) /* there was room for all, but no number */
        error = -EMFILE;
    else if (length == 0)
        error = -ECONNRESET;
    else if ((packet.msg_flags & MSG_TRUNC) || !is_whole(message, length))
        error = -EPROTO;
    if (error != 0) {
        for (unsigned i = 0; i < number; i++)
            discard(received[i]);
        return error;
    }
    memcpy(fds, received, sizeof(int) * number);
    *count = number;
    return 0;
}

int portus_message_receive(int socket, struct portus_message *message, int *fds, unsigned *count,
                           int milliseconds)
{
    struct pollfd event = {.fd = socket, .events = POLLIN};

    if (milliseconds > 0 && poll(&event, 1, milliseconds) == 0)
        return -EAGAIN;
    return receive(socket, message, fds, count, NULL, 0, 0);
}

int portus_message_receive_any(int socket, struct portus_message *message, int *fds,
                               unsigned *count, void *bytes, uint32_t room)
{
    return receive(socket, message, fds, count, bytes, room, 0);
}

int portus_message_peek(int socket, struct portus_message *message, int *fds, unsigned *count)
{
    return receive(socket, message, fds, count, NULL, 0, MSG_PEEK);
}

int portus_message_drop(int socket)
{
    char byte;
    ssize_t length;

    do
        length = recv(socket, &byte, sizeof(byte), MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    return length < 0 ? -errno : 0;
}

bool portus_message_peer(int socket, uint32_t *pid)
{
    uint32_t uid, who;

    if (!portus_message_who(socket, &uid, &who) || uid != geteuid())
        return false;
    *pid = who;
    return true;
}

bool portus_message_who(int socket, uint32_t *uid, uint32_t *pid)
{
    struct ucred who;
    socklen_t size = sizeof(who);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return false;
    *uid = who.uid;
    *pid = (uint32_t)who.pid;
    return true;
}

int portus_message_send_bytes(int socket, const struct portus_message *message, const void *bytes)
{
    struct iovec parts[2] = {{(void *)message, sizeof(*message)}, {(void *)bytes, message->flags}};
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;

    do
        sent = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

int portus_message_receive_bytes(int socket, struct portus_message *message, void *bytes,
                                 uint32_t room, int milliseconds)
{
    struct iovec parts[2] = {{message, sizeof(*message)}, {bytes, room}};
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
    struct pollfd event = {.fd = socket, .events = POLLIN};
    ssize_t length;

    if (milliseconds > 0 && poll(&event, 1, milliseconds) == 0)
        return -EAGAIN;
    do
        length = recvmsg(socket, &packet, MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return -errno;
    if (length == 0)
        return -ECONNRESET;
    return (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !is_whole(message, length) ? -EPROTO
                                                                                       : 0;
}
