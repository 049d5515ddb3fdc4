/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c -- the agent's connections: who may come in, and what they say
 *
 * Only this user's processes are let in, by the uid that the socket knows. What
 * they say is checked; one that breaks the protocol loses its connection, which is
 * all that it loses: what it had captured is drained as if it had died.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/log.h"
#include "common/message.h"
#include "common/name.h"

#define MESSAGES_A_TURN 64

/* Lines that strangers bring about, who may come again and again. */
static struct portus_log_some knocks, crowds, breaks;

static void hang_up(struct agent *agent, struct agent_peer *peer)
{
    struct agent_state *state = agent->state;
    int socket = peer->socket;

    bool shared = false;

    /* A session has its client's pidfd from its peer, also one that was just being opened. */
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        shared |= peer->pidfd != 0 && state->session[i].pidfd == peer->pidfd;
    if (peer->session != 0 && !peer->deaf)
        agent_session_leave(agent, peer->session - 1);
    if (peer->pidfd != 0 && !shared && peer->session == 0)
        close(peer->pidfd);
    memset(peer, 0, sizeof(*peer));
    close(socket);
    while (state->peers_end > 0 && state->peer[state->peers_end - 1].socket == 0)
        state->peers_end--;
}

unsigned agent_peers_count(const struct agent *agent)
{
    unsigned count = 0;

    for (unsigned i = 0; i < agent->state->peers_end; i++)
        count += agent->state->peer[i].socket != 0;
    return count;
}

/* After another worker was killed: who got no welcome asks again on a new connection. */
void agent_peers_resume(struct agent *agent)
{
    for (unsigned i = 0; i < AGENT_PEERS; i++)
        if (agent->state->peer[i].socket != 0) {
            agent->state->peers_end = i + 1;
            if (!agent->state->peer[i].welcomed)
                hang_up(agent, &agent->state->peer[i]);
        }
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        bool connected = false;
        for (unsigned j = 0; j < agent->state->peers_end; j++)
            connected |= agent->state->peer[j].session == i + 1;
        if (!connected && agent->state->session[i].ring != 0)
            agent_session_leave(agent, i);
    }
}

static void let_in(struct agent *agent)
{
    struct agent_state *state = agent->state;
    uint32_t pid;
    struct agent_peer *place = NULL;
    int fd = accept4(state->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (!portus_message_peer(fd, &pid)) {
        if (portus_log_some(&knocks))
            log_warn("a process of another user knocked: refused");
        close(fd);
        return;
    }
    for (unsigned i = 0; i < AGENT_PEERS && place == NULL; i++)
        if (state->peer[i].socket == 0)
            place = &state->peer[i];
    if (place == NULL) {
        if (portus_log_some(&crowds))
            agent_error(agent, "more than %d connections: one more is refused", AGENT_PEERS);
        close(fd);
        return;
    }
    memset(place, 0, sizeof(*place));
    place->pid = pid;
    place->socket = fd;
    if ((uint32_t)(place - state->peer) >= state->peers_end)
        state->peers_end = (uint32_t)(place - state->peer) + 1;
}

static int welcome(struct agent *agent, struct agent_peer *peer, const struct portus_message *hello)
{
    struct agent_state *state = agent->state;
    struct portus_message answer = portus_message_make(PORTUS_OP_WELCOME);
    int fds[3] = {state->control_fd, state->doorbell, -1};
    unsigned count = 2;
    int number, error;

    answer.value = UINT32_MAX;
    peer->role = hello->value;
    if (peer->role == PORTUS_ROLE_CLIENT) {
        peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
        if (peer->pidfd < 0) {
            peer->pidfd = 0;
            answer.error = -ESRCH;
            goto send;
        }
        number = agent_session_open(agent, peer, hello->size);
        if (number < 0) {
            answer.error = number;
            goto send;
        }
        peer->session = (uint32_t)number + 1;
        answer.value = (uint32_t)number;
        answer.size = state->session[number].ring_map;
        answer.flags = state->welcomed++ == 0 ? PORTUS_WELCOME_FIRST : 0;
        if (hello->flags != 0 && hello->flags != portus_store_hash(state->env.store))
            answer.flags |= PORTUS_WELCOME_OTHER;
        fds[count++] = state->session[number].ring;
    } else if (peer->role != PORTUS_ROLE_LOOK) {
        return -EPROTO;
    } else if (agent_peers_count(agent) > AGENT_LOOKERS) {
        answer.error = -EUSERS;
    }
send:
    if (answer.error != 0)
        count = 0;
    peer->welcomed = true;
    error = portus_message_send(peer->socket, &answer, fds, count);
    return error == -EPIPE ? -ECONNRESET : error; /* it has not waited */
}

/* What cannot be taken out would be heard again and again. */
static void drop(struct agent *agent, struct agent_peer *peer)
{
    if (portus_message_drop(peer->socket) != 0)
        agent_quit(agent, "a message cannot be taken out of its connection");
}

/* Handles one message. 0, or a negative errno: hang up. */
static int hear(struct agent *agent, struct agent_peer *peer)
{
    struct portus_message message;
    int fds[PORTUS_MESSAGE_FDS];
    unsigned count = 0;
    int error = portus_message_peek(peer->socket, &message, fds, &count);

    if (error != 0)
        return error;
    if (message.op == PORTUS_OP_ENGAGE && count == 1 && peer->session != 0) {
        /* Taken out once it is noted: if we are killed before, the next worker finds it. */
        error = agent_file_engage(agent, peer->session - 1, message.value, message.size, fds[0]);
        drop(agent, peer);
        if (error != 1)
            agent_discard(agent, fds[0]);
        return error < 0 ? error : 0;
    }
    drop(agent, peer);
    if (message.op == PORTUS_OP_RENAMED && count == 1 && peer->welcomed) {
        agent_store_renamed(agent, fds[0]);
        return 0;
    }
    for (unsigned i = 0; i < count; i++)
        agent_discard(agent, fds[i]);
    if (count != 0)
        return -EPROTO;
    if (!peer->welcomed)
        return message.op == PORTUS_OP_HELLO ? welcome(agent, peer, &message) : -EPROTO;
    switch (message.op) {
    case PORTUS_OP_OFF:
    case PORTUS_OP_ON:
        if (atomic_load(&agent->control->passive) != PORTUS_PASSIVE_TERM)
            atomic_store(&agent->control->passive,
                         message.op == PORTUS_OP_OFF ? PORTUS_PASSIVE_OFF : PORTUS_CAPTURING);
        return 0;
    default:
        return -EPROTO;
    }
}

static void listen_to(struct agent *agent, struct agent_peer *peer)
{
    int error = 0;

    for (unsigned i = 0; i < MESSAGES_A_TURN && error == 0; i++)
        error = hear(agent, peer);
    if (error == 0 || error == -EAGAIN)
        return;
    if (error != -ECONNRESET && error != -EPROTO && error != -EMSGSIZE)
        agent_quit(agent, strerror(-error));
    if (error != -ECONNRESET && portus_log_some(&breaks))
        agent_error(agent, "process %u broke the protocol (%s): it is not heard any more",
                    peer->pid, strerror(-error));
    if (error != -ECONNRESET && peer->session != 0) {
        /* To hang up would tell it that we are dead, and it would write beside us. */
        peer->deaf = true;
        agent_session_leave(agent, peer->session - 1);
        return;
    }
    hang_up(agent, peer);
}

void agent_peers_forget(struct agent *agent, unsigned session)
{
    for (unsigned i = 0; i < agent->state->peers_end; i++)
        if (agent->state->peer[i].session == session + 1 && agent->state->peer[i].deaf)
            hang_up(agent, &agent->state->peer[i]);
}

void agent_peers_deafen(struct agent *agent, unsigned session)
{
    for (unsigned i = 0; i < agent->state->peers_end; i++)
        if (agent->state->peer[i].session == session + 1)
            agent->state->peer[i].deaf = true;
}

static void empty(int eventfd)
{
    uint64_t value;

    if (read(eventfd, &value, sizeof(value)) < 0)
        log_debug("eventfd: %s", strerror(errno));
}

bool agent_peers_turn(struct agent *agent, int milliseconds)
{
    static struct pollfd events[AGENT_PEERS + 4];
    static uint32_t who[AGENT_PEERS + 4];
    struct agent_state *state = agent->state;
    unsigned count = 4;
    int ready;

    events[0] = (struct pollfd){.fd = state->listener, .events = POLLIN};
    events[1] = (struct pollfd){.fd = state->doorbell, .events = POLLIN};
    events[2] = (struct pollfd){.fd = state->breaks, .events = POLLIN};
    events[3] = (struct pollfd){.fd = state->store != 0 ? state->store : -1, .events = POLLIN};
    for (unsigned i = 0; i < state->peers_end; i++)
        if (state->peer[i].socket != 0 && !state->peer[i].deaf) {
            who[count] = i;
            events[count++] = (struct pollfd){.fd = state->peer[i].socket, .events = POLLIN};
        }
    ready = poll(events, count, milliseconds);
    if (ready < 0 && errno != EINTR)
        agent_quit(agent, strerror(errno));
    if (ready <= 0)
        return false;
    if (events[1].revents)
        empty(state->doorbell);
    if (events[2].revents) {
        empty(state->breaks);
        agent_files_broken(agent);
        agent_store_broken(agent);
    }
    for (unsigned i = 4; i < count; i++)
        if (events[i].revents)
            listen_to(agent, &state->peer[who[i]]);
    if (events[0].revents)
        let_in(agent);
    return true;
}
