/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dial.c -- a connection to the store
 *
 * To a portusd of this machine, which is started where none runs, or one for all users; or by a
 * carrier to one of another machine: that is a process of its own, so that the loop that drains
 * neither encrypts nor waits for a network.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/address.h"
#include "common/futex.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/message.h"
#include "common/name.h"

#define START_NS 10000000000ull      /* portusd has to be there by then */
#define FAR_START_NS 60000000000ull  /* of several each may take its time */
#define START_AGAIN_NS 1000000000ull /* it may have been killed meanwhile */

/* One that serves other users, too, and that somebody else starts. */
bool agent_store_shared(const struct agent *agent)
{
    return strncmp(agent->state->env.store, PORTUS_NAME_UNIX, strlen(PORTUS_NAME_UNIX)) == 0;
}

/* On another machine: a carrier speaks to it. It can look at no file here. */
bool agent_store_far(const struct agent *agent)
{
    return portus_address_is(agent->state->env.store);
}

/*
 * portusd, or (socket) a carrier to one, beside the agent. It is nobody's child: a portusd
 * outlives us, a carrier ends when its socket does.
 */
static void start(const struct agent *agent, int socket)
{
    static const char *const names[] = {"portusd", "portus-carrier"};
    const char *name = names[socket >= 0];
    char path[PATH_MAX], first[12];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof("portus-carrier"));
    char *slash;
    sigset_t none;
    pid_t child;

    if (length <= 0)
        return;
    path[length] = '\0';
    slash = strrchr(path, '/');
    strcpy(slash == NULL ? path : slash + 1, name);
    snprintf(first, sizeof(first), "%u", agent->store_first);
    child = fork();
    if (child == 0) {
        if (setsid() < 0 || fork() != 0)
            _exit(0);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (socket >= 0 && (dup2(socket, 3) != 3 || fcntl(3, F_SETFD, 0) < 0 ||
                            syscall(SYS_close_range, 4u, ~0u, 0u) < 0))
            _exit(127);
        if (socket >= 0)
            execl(path, name, "3", first, agent->state->env.store, (char *)NULL);
        else
            execl(path, name, "--idle", agent->state->env.store, (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* Says who it is; the welcome is waited for. Takes fd. */
static void greet(struct agent *agent, int fd)
{
    struct portus_message hello = portus_message_make(PORTUS_OP_HELLO);
    struct sockaddr_un own;
    socklen_t own_length;
    uint64_t now = portus_now();

    hello.value = PORTUS_ROLE_KEEP;
    if (portus_name(&own, &own_length, agent->state->env.job) == 0)
        hello.size = portus_hash(PORTUS_HASH_EMPTY, (const char *)&own, own_length);
    if (agent->store_since == 0)
        agent->store_since = now;
    agent->store_heard = now;
    agent->store_asked = 0;
    if (portus_message_send(fd, &hello, NULL, 0) != 0) {
        close(fd);
        if (now - agent->store_since > START_NS)
            agent_store_give_up(agent, "portusd does not listen to this user");
        return;
    }
    agent->state->store_ready = false;
    agent->state->store = fd;
}

/* For want of a descriptor, or of memory: there may be one in a moment. */
static void no_socket(struct agent *agent, int error)
{
    uint64_t now = portus_now();

    if (agent->store_since == 0)
        agent->store_since = now;
    if (now - agent->store_since > START_NS)
        agent_store_give_up(agent, strerror(error));
    else if (!agent->store_socketless)
        log_warn("%s: no socket for it: %s: tried again for %llu s", agent->state->env.store,
                 strerror(error), START_NS / 1000000000);
    agent->store_socketless = true;
}

/* A carrier that finds one of the stores; which of them says its welcome. */
static void connect_far(struct agent *agent)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        no_socket(agent, errno);
        return;
    }
    agent->store_socketless = false;
    start(agent, pair[1]);
    close(pair[1]);
    greet(agent, pair[0]);
}

/* A connection that waits for its welcome, or is there. */
static void connect_near(struct agent *agent)
{
    struct sockaddr_un address;
    socklen_t length;
    uint32_t pid;
    uint64_t now = portus_now();
    bool shared = agent_store_shared(agent);
    int fd, error;

    error = portus_name_store(&address, &length, agent->state->env.store);
    if (error != 0) {
        agent_store_give_up(agent, error == -ENOENT
                                       ? "no pool is there (portusctl pool create makes one)"
                                       : strerror(-error));
        return;
    }
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        no_socket(agent, errno);
        return;
    }
    agent->store_socketless = false;
    if (connect(fd, (struct sockaddr *)&address, length) < 0) {
        error = errno;
        close(fd);
        if (error != ECONNREFUSED && error != EAGAIN && !(shared && error == ENOENT))
            agent_store_give_up(agent, strerror(error));
        else if (agent->store_since != 0 && now - agent->store_since > START_NS)
            agent_store_give_up(agent, shared ? "no portusd listens there"
                                              : "no portusd can be had for it");
        else if (agent->store_since == 0 || now - agent->store_started > START_AGAIN_NS) {
            if (agent->store_since == 0)
                agent->store_since = now;
            agent->store_started = now;
            if (!shared)
                start(agent, -1);
        }
        return;
    }
    /* Who listens at a path that the user has named is the one that is meant. */
    if (!shared && !portus_message_peer(fd, &pid)) {
        close(fd);
        agent_store_give_up(agent, "another user has taken the store's name");
        return;
    }
    greet(agent, fd);
}

void agent_store_dial(struct agent *agent)
{
    if (agent_store_far(agent))
        connect_far(agent);
    else
        connect_near(agent);
}

bool agent_store_late(const struct agent *agent)
{
    return portus_now() - agent->store_since > (agent_store_far(agent) ? FAR_START_NS : START_NS);
}
