/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c -- calls into file systems, of which any may never return
 *
 * There is one loop, and several threads that can run it. Whoever runs it has the lock, but
 * during such a call. A call that takes long (the server of an NFS is gone, a FUSE hangs, a
 * disk does not answer) loses the loop: the watchdog gives it to another thread. What the
 * call was made for is finished by the thread that made it, with the lock, when it returns;
 * then that one stands by. So nothing of what the loop does is done twice at once, and what
 * it knows needs no lock of its own.
 *
 * A file system that was slow gives the loop away before each call, for a while; and while
 * one of its calls is away nothing else is begun there. So it holds one thread at most, and
 * order within it stays the order of the loop. As long as all file systems answer there is
 * one thread that works, and a lock that nobody else wants.
 *
 * Not here: what waits meanwhile (drain.c, lease.c).
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/log.h"

#define LATE_NS 200000000ull    /* then the loop goes on without it */
#define SLOW_NS 5000000000ull   /* and so long its next calls do not hold the loop at all */
#define SILENT_NS 5000000000ull /* then others are told */
#define TICK_MS 50
#define DOZE_TICKS 40
#define STACK (256u << 10)

/* 0: the worker's first thread. The model needs nothing of the loader. */
static _Thread_local unsigned me __attribute__((tls_model("initial-exec")));

bool agent_lost(const struct agent *agent)
{
    return atomic_load(&agent->calls.owner) != me;
}

static struct agent_thread *mine(struct agent *agent)
{
    return &agent->calls.thread[me];
}

static void *stand_in(void *argument)
{
    struct agent_thread *thread = argument;

    me = thread->number;
    agent_loop(thread->agent);
    return NULL;
}

static int begin(void *(*work)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);

    if (error != 0)
        return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    error = pthread_create(&thread, &attributes, work, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

/* With the lock, while the owner is in a call: another thread gets the loop, if there is one. */
static void give(struct agent *agent)
{
    struct agent_calls *calls = &agent->calls;
    struct agent_thread *next = NULL;

    for (unsigned i = 0; i < AGENT_THREADS && next == NULL; i++)
        if (calls->thread[i].parked)
            next = &calls->thread[i];
    for (unsigned i = 1; i < AGENT_THREADS && next == NULL; i++) {
        struct agent_thread *thread = &calls->thread[i];
        if (thread->agent != NULL)
            continue;
        thread->agent = agent;
        thread->number = i;
        if (begin(stand_in, thread) != 0) {
            thread->agent = NULL;
            return; /* all wait for that call, as they would without threads */
        }
        next = thread;
    }
    if (next == NULL)
        return;
    calls->thread[atomic_load(&calls->owner)].away = true;
    calls->away++;
    next->parked = false;
    atomic_store(&calls->owner, (unsigned)(next - calls->thread));
    portus_futex_advance(&next->go);
}

/* When the owner's call began; 0: it is in none. */
static uint64_t owner_began(struct agent *agent)
{
    return atomic_load(&agent->calls.thread[atomic_load(&agent->calls.owner)].began);
}

static void *watch(void *argument)
{
    struct agent *agent = argument;
    struct agent_calls *calls = &agent->calls;
    unsigned idle = 0;

    for (;;) {
        uint64_t began = owner_began(agent);

        idle = began == 0 ? idle + 1 : 0;
        if (idle > DOZE_TICKS) {
            idle = 0;
            atomic_store(&calls->dozes, 1);
            if (owner_began(agent) == 0)
                portus_futex_wait(&calls->dozes, 1, 60000);
            atomic_store(&calls->dozes, 0);
        }
        poll(NULL, 0, TICK_MS);
        if (began == 0 || portus_now() - began < LATE_NS || owner_began(agent) != began)
            continue;
        portus_lock(&calls->lock);
        if (owner_began(agent) == began)
            give(agent);
        portus_unlock(&calls->lock);
    }
    return NULL;
}

static bool slow(const struct agent *agent, uint64_t device, uint64_t now)
{
    for (unsigned i = 0; i < AGENT_SLOW; i++)
        if (agent->calls.slow[i].device == device && agent->calls.slow[i].until > now)
            return true;
    return false;
}

static void note_slow(struct agent *agent, uint64_t device, uint64_t now)
{
    struct agent_slow *slow = agent->calls.slow, *place = slow;

    for (unsigned i = 0; i < AGENT_SLOW; i++) {
        if (slow[i].device == device) {
            place = &slow[i];
            break;
        }
        if (slow[i].until < place->until)
            place = &slow[i];
    }
    *place = (struct agent_slow){device, now + SLOW_NS};
}

void agent_call(struct agent *agent, uint64_t device, const char *what)
{
    struct agent_calls *calls = &agent->calls;
    struct agent_thread *thread = mine(agent);
    uint64_t now = portus_now();

    if (!calls->watched)
        calls->watched = begin(watch, agent) == 0;
    thread->device = device;
    thread->what = what;
    thread->told = false;
    atomic_store(&thread->began, now);
    if (agent_lost(agent)) {
        thread->away = true;
        calls->away++;
    } else if (slow(agent, device, now)) {
        give(agent);
    } else if (atomic_load(&calls->dozes) != 0) {
        atomic_store(&calls->dozes, 0);
        portus_futex_wake(&calls->dozes);
    }
    portus_unlock(&calls->lock);
}

void agent_called(struct agent *agent)
{
    struct agent_calls *calls = &agent->calls;
    struct agent_thread *thread = mine(agent);
    uint64_t now, took;

    if (!portus_trylock(&calls->lock)) {
        /* Whoever runs the loop may sleep with it. */
        atomic_fetch_add(&calls->returning, 1);
        agent_wake(agent);
        portus_lock(&calls->lock);
        atomic_fetch_sub(&calls->returning, 1);
    }
    now = portus_now();
    took = now - atomic_load(&thread->began);
    atomic_store(&thread->began, 0);
    if (took >= LATE_NS)
        note_slow(agent, thread->device, now);
    if (thread->told)
        log_warn("%.*s: its file system answers again, after %llu s", PORTUS_FILE_PATH - 1,
                 thread->path, (unsigned long long)(took / 1000000000));
    if (!thread->away)
        return;
    thread->away = false;
    calls->away--;
    agent_wake(agent); /* what waited for this file system may go on */
}

bool agent_call_away(const struct agent *agent, uint64_t device)
{
    const struct agent_calls *calls = &agent->calls;

    if (calls->away == 0)
        return false;
    for (unsigned i = 0; i < AGENT_THREADS; i++)
        if (calls->thread[i].away && calls->thread[i].device == device)
            return true;
    return false;
}

bool agent_call_silent(const struct agent *agent, uint64_t device)
{
    const struct agent_calls *calls = &agent->calls;

    for (unsigned i = 0; i < AGENT_THREADS && calls->away != 0; i++)
        if (calls->thread[i].away && calls->thread[i].device == device &&
            portus_now() - atomic_load(&calls->thread[i].began) >= SILENT_NS)
            return true;
    return false;
}

void agent_calls_turn(struct agent *agent)
{
    struct agent_calls *calls = &agent->calls;

    while (atomic_load(&calls->returning) != 0) {
        portus_unlock(&calls->lock);
        poll(NULL, 0, 1);
        portus_lock(&calls->lock);
    }
    for (unsigned i = 0; i < AGENT_THREADS && calls->away != 0; i++) {
        struct agent_thread *thread = &calls->thread[i];
        if (!thread->away || thread->told || portus_now() - atomic_load(&thread->began) < SILENT_NS)
            continue;
        thread->told = true;
        snprintf(thread->path, sizeof(thread->path), "%.*s", PORTUS_FILE_PATH - 1, thread->what);
        log_warn("%s: its file system does not answer: what is to go there waits, all else goes on",
                 thread->path);
    }
}

void agent_loop(struct agent *agent)
{
    struct agent_calls *calls = &agent->calls;

    portus_lock(&calls->lock);
    for (;;) {
        mine(agent)->parked = agent_lost(agent);
        while (agent_lost(agent)) {
            uint32_t go = atomic_load(&mine(agent)->go);
            portus_unlock(&calls->lock);
            portus_futex_wait(&mine(agent)->go, go, 60000);
            portus_lock(&calls->lock);
        }
        agent_turns(agent);
    }
}

uint64_t agent_device(int fd)
{
    struct statx status;

    /* What it knows without asking anybody. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
        return 0;
    return makedev(status.stx_dev_major, status.stx_dev_minor);
}

void agent_discard(struct agent *agent, int fd)
{
    if (agent->discarded == AGENT_DISCARDS) {
        close(fd);
        return;
    }
    agent->discard[agent->discarded].fd = fd;
    agent->discard[agent->discarded++].device = agent_device(fd);
}

bool agent_discard_turn(struct agent *agent)
{
    for (unsigned i = 0; i < agent->discarded; i++) {
        struct agent_discard entry = agent->discard[i];

        if (agent_call_away(agent, entry.device))
            continue;
        agent->discard[i] = agent->discard[--agent->discarded];
        agent_call(agent, entry.device, "a file that a client sent");
        close(entry.fd);
        agent_called(agent);
        return true;
    }
    return false;
}
