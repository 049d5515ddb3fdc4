/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.c -- the agent's one loop
 *
 * Each turn: take what came in, replay one piece of each session, finish files
 * that are drained. When there is nothing to replay: grow rings for the next
 * save, then sleep. One thread at a time, because the order of replay is the point, and
 * one core replays faster than most disks write; which thread, calls.c decides.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/left.h"
#include "common/log.h"
#include "common/scribe.h"
#include "common/trace.h"

#define IDLE_NS 3000000000ull
#define LINES 8 /* about one client */
#define SOME 100
#define KEEPING_MS 5 /* leases and connections are tried again */

void agent_error(struct agent *agent, const char *format, ...)
{
    char text[PORTUS_ERROR_TEXT];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_error("%s", text);
    memcpy(agent->control->last_error, text, sizeof(text));
    atomic_fetch_add(&agent->control->errors, 1);
}

void agent_quit(struct agent *agent, const char *what)
{
    agent_error(agent, "%s: the agent ends, its clients write the rest themselves", what);
    agent_store_end(agent); /* a lease without us would hold its opener */
    portus_scribes_end();
    _exit(1); /* and so the keeper */
}

bool agent_may_say(struct agent *agent, unsigned session)
{
    static struct portus_log_some some = {.most = SOME};
    struct agent_session *own = &agent->state->session[session];

    if (own->lines >= LINES || !portus_log_some(&some))
        return false;
    if (++own->lines == LINES)
        log_warn("process %u: this is the last line about it but one",
                 atomic_load(&agent->control->session[session].pid));
    return true;
}

int agent_reopen(int fd, int flags)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

void agent_progress(struct agent *agent)
{
    if (atomic_load(&agent->control->progress_waiters) != 0)
        portus_futex_advance(&agent->control->progress);
    else
        atomic_fetch_add(&agent->control->progress, 1);
}

void agent_wake(struct agent *agent)
{
    uint64_t one = 1;

    if (write(agent->state->doorbell, &one, sizeof(one)) < 0)
        log_debug("eventfd: %s", strerror(errno)); /* full: it is ringing already */
}

static bool known(const struct agent_state *state, int fd)
{
    if (fd <= 2 || fd == state->listener || fd == state->control_fd || fd == state->doorbell ||
        fd == state->breaks || fd == state->store)
        return true;
    for (unsigned i = 0; i < AGENT_KEEPS; i++)
        if (state->keep[i].state != 0 && fd == state->keep[i].fd)
            return true;
    for (unsigned i = 0; i < AGENT_PEERS; i++)
        if (fd == state->peer[i].socket || fd == state->peer[i].pidfd)
            return true;
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (fd == state->session[i].ring || fd == state->session[i].pidfd)
            return true;
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (fd == state->file[i])
            return true;
    return false;
}

/* What the last worker had opened or received and not noted before it was killed. */
static void close_unknown(struct agent *agent)
{
    DIR *directory = opendir("/proc/self/fd");

    if (directory == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (fd != dirfd(directory) && !known(agent->state, fd))
            agent_discard(agent, fd);
    }
    closedir(directory);
}

static void resume(struct agent *agent)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (agent->state->session[i].ring != 0 && agent_ring_map(agent, i) != 0)
            agent_quit(agent, "a ring cannot be mapped again");
    /* The last worker may have been killed between doing a thing and saying so. */
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (agent->state->session[i].ring != 0)
            atomic_store(&agent->control->session[i].tail, agent->state->session[i].tail);
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (agent->state->file[i] == 0 &&
            atomic_load(&agent->control->file[i].state) == PORTUS_FILE_TRIMMED) {
            atomic_store(&agent->control->file[i].state, PORTUS_FILE_DONE);
            portus_futex_advance(&agent->control->finished);
            atomic_fetch_sub(&agent->control->live, 1);
        }
    agent_files_resume(agent);
    agent_peers_resume(agent);
    agent_files_broken(agent); /* a signal may have come while nobody worked */
    agent_store_resume(agent);
}

/* For who is about to kill it. */
static void say_left(const struct portus_control *control)
{
    char text[PORTUS_LEFT_TEXT];

    if (portus_left(control, text).bytes != 0)
        log_warn("told to end: %s are not in their files yet: drains them, captures nothing new",
                 text);
    else
        log_info("told to end: all is in its files, captures nothing new");
}

static bool drain_all(struct agent *agent)
{
    uint64_t began = portus_now();
    bool did = false;

    for (unsigned i = 0; i < PORTUS_SESSIONS && !agent_lost(agent); i++)
        if (atomic_load(&agent->control->session[i].state) != PORTUS_SESSION_FREE &&
            agent->ring[i] != NULL)
            did |= agent_drain(agent, i);
    if (did && !agent_lost(agent))
        agent->busy_ns += portus_now() - began;
    return did;
}

/*
 * The kernel takes a lease away lease-break-time after somebody waits for it, so
 * what is not drained yet must fit well within that; and sessions share.
 */
static void measure(struct agent *agent)
{
    static uint64_t seconds;
    struct portus_control *control = agent->control;
    unsigned active = 0;
    uint64_t rate, share;

    if (seconds == 0) {
        FILE *file = fopen("/proc/sys/fs/lease-break-time", "re");
        unsigned long long read = 0;
        if (file != NULL) {
            if (fscanf(file, "%llu", &read) != 1)
                read = 0;
            fclose(file);
        }
        seconds = read > 0 ? read : 45;
    }
    if (agent->busy_ns < 100000000ull)
        return;
    rate = (uint64_t)((double)agent->busy_bytes * 1e9 / (double)agent->busy_ns);
    agent->busy_ns = agent->busy_bytes = 0;
    if (atomic_load(&control->drain_rate) != 0)
        rate = (atomic_load(&control->drain_rate) * 3 + rate) / 4;
    atomic_store(&control->drain_rate, rate);
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        active += atomic_load(&control->session[i].state) != PORTUS_SESSION_FREE;
    share = rate * seconds / 3 / (active > 0 ? active : 1);
    atomic_store(&control->undrained_limit, share > PORTUS_CHUNK * 16 ? share : PORTUS_CHUNK * 16);
}

/* Nothing that could be replayed now. */
static bool nothing_pending(const struct agent *agent)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (atomic_load(&agent->control->session[i].state) != PORTUS_SESSION_FREE &&
            !agent_drained(agent, i) && !agent->held[i])
            return false;
    return true;
}

static void end_sessions(struct agent *agent)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (atomic_load(&agent->control->session[i].state) == PORTUS_SESSION_DYING)
            agent_session_end(agent, i);
}

/* Whether the agent has been of no use for a while. */
static bool over(struct agent *agent, uint64_t now)
{
    bool busy = agent_files_count(agent, 0) > 0 || !nothing_pending(agent) ||
                agent->state->keeps > 0 || agent->calls.away > 0 || agent->discarded > 0;

    if (!busy && atomic_load(&agent->control->passive) == PORTUS_PASSIVE_TERM)
        return true; /* whoever is connected finds another agent with the next save */
    /* While its log hangs its end would, too, and nobody could have its name. */
    if (busy || agent_peers_count(agent) > 0 || portus_scribes_behind()) {
        agent->idle_since = 0;
        return false;
    }
    if (agent->idle_since == 0)
        agent->idle_since = now;
    return now - agent->idle_since > IDLE_NS;
}

/* One turn, up to where the loop is lost, or the turn over. */
static void turn(struct agent *agent)
{
    struct portus_control *control = agent->control;
    uint64_t now = portus_now();
    bool busy, keeping;

    atomic_fetch_add(&control->beat, 1);
    agent_metrics_turn(agent, false);
    if (atomic_load(&control->passive) == PORTUS_PASSIVE_TERM && !agent->told) {
        agent->told = true;
        say_left(control);
    }
    if (atomic_load(&control->passive) != PORTUS_CAPTURING && !agent->stopping)
        agent_files_stop(agent, 0);
    agent->stopping = atomic_load(&control->passive) != PORTUS_CAPTURING;
    busy = agent_peers_turn(agent, 0);
    busy |= agent_discard_turn(agent);
    if (agent_lost(agent))
        return;
    if (drain_all(agent)) {
        busy = true;
        measure(agent);
    } else if (portus_trace_on()) {
        agent_trace_flush(agent);
    }
    if (agent_lost(agent))
        return;
    busy |= agent_files_finish(agent);
    if (agent_lost(agent))
        return;
    keeping = agent_store_turn(agent);
    end_sessions(agent);
    if (busy)
        return;
    if (nothing_pending(agent) && agent_rings_grow(agent)) {
        agent->look = 0;
        return;
    }
    if (now >= agent->look)
        agent->look = now + agent_rings_relieve(agent);
    if (over(agent, now)) {
        agent_metrics_turn(agent, true);
        portus_scribes_end();
        _exit(0);
    }

    /* Sleep; whoever appends a record after this store rings the doorbell. */
    atomic_store(&control->sleeping, 1); /* before the heads are looked at, for all */
    if (nothing_pending(agent))
        agent_peers_turn(agent, agent->stamping ? 1
                                : keeping       ? KEEPING_MS
                                                : 1 + (int)((agent->look - now) / 1000000));
    else
        agent_peers_turn(agent, 1); /* a record is reserved and not ready yet */
    atomic_store(&control->sleeping, 0);
}

void agent_turns(struct agent *agent)
{
    do {
        turn(agent);
        agent_calls_turn(agent);
    } while (!agent_lost(agent));
}

void agent_work(struct agent_state *state, struct portus_control *control)
{
    static struct agent agent;

    agent.state = state;
    agent.control = control;
    atomic_store(&control->worker, (uint32_t)getpid());
    /* The keeper's descriptors of them are among those that are closed. */
    portus_log_forget();
    portus_trace_forget();
    close_unknown(&agent);
    portus_scribes_begin();
    if (state->killed != 0)
        log_warn("worker %d ended by signal %d: another takes over", state->killed,
                 state->killed_by);
    resume(&agent);
    agent_loop(&agent);
}
