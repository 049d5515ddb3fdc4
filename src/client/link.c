/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c -- a connection to this user's agent
 *
 * What the agent sends is checked like any input: sizes of what is mapped come
 * from fstat of the received descriptors, and a segment that is too short or
 * of another version is refused.
 *
 * Code here runs inside a program that interposes the C library with our own
 * hooks; they let our descriptors pass, so plain calls are used.
 */
#include "client/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/descriptor.h"
#include "client/spawn.h"
#include "common/futex.h"
#include "common/message.h"
#include "common/name.h"

#define PATIENCE_NS 3000000000ull
#define RESTART_NS 300000000ull

/* Maps length bytes of fd if the file has at least `least` bytes. */
static void *map_shared(int fd, uint64_t length, uint64_t least)
{
    struct statx status;
    void *memory;

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &status) < 0 ||
        status.stx_size < least)
        return NULL;
    memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int connect_once(const struct sockaddr_un *address, socklen_t length, int *out, int *keeper,
                        const char **why)
{
    uint32_t pid;
    int error, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        *why = "no unix sockets here";
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)address, length) < 0) {
        error = -errno;
        *why = "no agent answers";
        goto close;
    }
    if (!portus_message_peer(fd, &pid)) {
        *why = "another user has taken the agent's name";
        error = -EPERM;
        goto close;
    }
    /* Of a peer in a pid namespace that we do not see, pid is 0: it could not be stopped. */
    *keeper = (int)syscall(SYS_pidfd_open, pid, 0);
    if (*keeper < 0) {
        *why = "no pidfd of the agent";
        error = errno == ESRCH ? -ECONNRESET : -errno; /* dead, and its worker is just leaving */
        goto close;
    }
    *out = fd;
    return 0;

close:
    syscall(SYS_close, fd);
    return error;
}

static bool ended(int pidfd)
{
    struct pollfd event = {.fd = pidfd, .events = POLLIN};

    return poll(&event, 1, 0) > 0;
}

static int greet(struct portus_link *link, const struct portus_link_options *options,
                 const char **why)
{
    struct portus_message message = portus_message_make(PORTUS_OP_HELLO);
    int fds[PORTUS_MESSAGE_FDS] = {-1, -1, -1};
    bool client = options->role == PORTUS_ROLE_CLIENT;
    unsigned count = 0, wanted = client ? 3 : 2;
    int error;

    message.value = (uint32_t)options->role;
    message.size = options->ring_size;
    message.flags = client ? portus_store_hash(options->store) : 0;
    error = portus_message_send(link->socket, &message, NULL, 0);
    if (error == 0)
        error = portus_message_receive(link->socket, &message, fds, &count, 1000);
    if (error != 0) {
        *why = error == -EPROTO ? "the agent is of another version" : "the agent does not answer";
        return error;
    }
    if (message.op != PORTUS_OP_WELCOME || message.error != 0 || count != wanted) {
        error = message.op == PORTUS_OP_WELCOME && message.error < 0 ? message.error : -EPROTO;
        *why = error == -ENOMEM ? "no memory for a ring" : "the agent refuses";
        goto close;
    }
    link->control =
        map_shared(fds[0], sizeof(struct portus_control), sizeof(struct portus_control));
    if (link->control == NULL || link->control->magic != PORTUS_CONTROL_MAGIC ||
        link->control->version != PORTUS_CONTROL_VERSION ||
        link->control->bytes != sizeof(struct portus_control)) {
        *why = "the agent is of another version";
        error = -EPROTO;
        goto close;
    }
    link->session = UINT32_MAX;
    link->first = (message.flags & PORTUS_WELCOME_FIRST) != 0;
    link->other_store = (message.flags & PORTUS_WELCOME_OTHER) != 0;
    if (client) {
        if (message.value >= PORTUS_SESSIONS || message.size < PORTUS_RING_DATA ||
            message.size > PORTUS_RING_DATA + PORTUS_RING_MAX) {
            *why = "the agent is of another version";
            error = -EPROTO;
            goto close;
        }
        link->session = message.value;
        link->ring_map = message.size;
        link->ring = map_shared(fds[2], link->ring_map, PORTUS_RING_DATA);
        if (link->ring == NULL) {
            *why = "no address space for a ring";
            error = -ENOMEM;
            goto close;
        }
        link->memory = portus_descriptor_raise(fds[2]);
        fds[2] = -1;
        error = link->memory < 0 ? -EMFILE : 0;
        if (error != 0)
            goto close;
    }
    link->doorbell = portus_descriptor_raise(fds[1]);
    fds[1] = -1;
    error = link->doorbell < 0 ? -EMFILE : 0;

close:
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0)
            syscall(SYS_close, fds[i]);
    return error;
}

/* The agent's name, made once: a program that renames many files looks for it each time. */
static int own_name(struct sockaddr_un *address, socklen_t *length, const char *job)
{
    static struct portus_lock lock;
    static struct sockaddr_un kept;
    static socklen_t kept_length;
    int error = 0;

    portus_lock(&lock);
    if (kept_length == 0)
        error = portus_name(&kept, &kept_length, job);
    *address = kept;
    *length = kept_length;
    portus_unlock(&lock);
    return error;
}

int portus_link_open(struct portus_link *out, const struct portus_link_options *options,
                     const char **why)
{
    const char *ignored;
    struct portus_link link;
    struct sockaddr_un address;
    socklen_t length;
    uint64_t deadline = portus_now() + PATIENCE_NS, started = 0;
    int error;

    if (why == NULL)
        why = &ignored;
    error = own_name(&address, &length, options->job);
    if (error != 0) {
        *why = "no /proc";
        return error;
    }
    for (;;) {
        memset(&link, 0, sizeof(link));
        link.socket = link.doorbell = link.keeper = link.memory = -1;
        error = connect_once(&address, length, &link.socket, &link.keeper, why);
        if (error == 0) {
            link.socket = portus_descriptor_raise(link.socket);
            link.keeper = portus_descriptor_raise(link.keeper);
            error = -EMFILE;
            *why = "too few descriptors allowed";
            if (link.socket >= 0 && link.keeper >= 0)
                error = greet(&link, options, why);
            if (error == 0)
                break;
            if (link.keeper >= 0 && ended(link.keeper))
                error = -ECONNRESET; /* whatever it looked like */
            else if (error == -EAGAIN && options->ends_stopped && portus_link_end_stopped(&link))
                error = -ECONNRESET;
            portus_link_close(&link);
        }
        /* An agent that is just ending resets the connection: the next one takes its name. */
        if (error != -ECONNREFUSED && error != -ECONNRESET && error != -EPIPE && error != -EAGAIN)
            return error;
        if (options->agent == NULL || portus_now() > deadline)
            return error;
        /* One that was started may have found the name taken, by an agent that was ending. */
        if (error == -ECONNREFUSED && portus_now() - started > RESTART_NS) {
            const char *arguments[] = {options->agent, NULL};
            int failed = portus_spawn(arguments, options->job, -1, -1);
            if (failed != 0) {
                *why = "portus-agent cannot be started";
                return failed;
            }
            started = portus_now();
        } else {
            if (error == -ECONNRESET || error == -EPIPE)
                started = 0;
            poll(NULL, 0, 1);
        }
    }
    *out = link;
    return 0;
}

void portus_link_close(struct portus_link *link)
{
    if (link->ring != NULL)
        munmap(link->ring, link->ring_map);
    portus_descriptor_close(&link->socket);
    portus_descriptor_close(&link->doorbell);
    portus_descriptor_close(&link->keeper);
    portus_descriptor_close(&link->memory);
    memset(link, 0, sizeof(*link));
    link->socket = link->doorbell = link->keeper = link->memory = -1;
}

bool portus_link_dead(const struct portus_link *link)
{
    struct pollfd event = {.fd = link->socket, .events = 0};
    int saved = errno;
    int ready = poll(&event, 1, 0);

    errno = saved;
    return ready > 0 && (event.revents & (POLLHUP | POLLERR | POLLNVAL));
}

bool portus_link_leaving(const struct portus_link *link)
{
    return ended(link->keeper);
}

void portus_link_ring(const struct portus_link *link)
{
    uint64_t one = 1;
    int saved = errno;

    syscall(SYS_write, link->doorbell, &one, sizeof(one));
    errno = saved;
}

void portus_link_wake(const struct portus_link *link)
{
    /* Pairs with the worker, which sets `sleeping` and then looks at the heads again. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&link->control->sleeping) == 0)
        return;
    if (atomic_exchange(&link->control->sleeping, 0) != 0)
        portus_link_ring(link);
}

int portus_link_send(const struct portus_link *link, enum portus_op op, uint32_t value,
                     uint64_t size, int fd)
{
    struct portus_message message = portus_message_make(op);

    message.value = value;
    message.size = size;
    return portus_message_send(link->socket, &message, &fd, fd < 0 ? 0 : 1);
}
