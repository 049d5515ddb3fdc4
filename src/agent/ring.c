/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c -- sessions, and the memory of their rings
 *
 * A ring begins small, because the first touch of memory costs more than a save.
 * While a save goes on the client says how much it would have needed; when all is
 * drained the ring is grown to that, page by page, by the agent: the next save
 * then runs at memory speed. Rings take half of the memory that is free at most,
 * and are given back when it becomes short.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define FIRST (16ull << 20)
#define STEP (16ull << 20)
#define SLACK (32ull << 20) /* the next save may be a little larger */
#define HUGE (2ull << 20)
#define LOOK_NS 1000000000ull
#define LOOK_LEAST_NS 5000000ull
#define FILLS 4 /* bytes a nanosecond, of programs that take memory */

static struct portus_log_some lacks;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t all_rings(const struct agent *agent)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (agent->state->session[i].ring != 0)
            sum += agent->state->session[i].ring_bytes;
    return sum;
}

/* What one ring may grow to now. */
static uint64_t ceiling(const struct agent *agent, unsigned number)
{
    const struct agent_session *session = &agent->state->session[number];
    uint64_t now = session->ring_bytes;
    uint64_t rings = all_rings(agent), headroom = portus_memory_headroom(), limit;

    /* Half of what would be free without us, less what the others have. */
    limit = headroom == UINT64_MAX ? UINT64_MAX : (headroom + rings) / 2;
    limit = limit > rings - now ? limit - (rings - now) : 0;
    limit = least(limit, session->ring_map - PORTUS_RING_DATA);
    return limit / PORTUS_CHUNK * PORTUS_CHUNK;
}

/* Adds bytes to a ring and makes their pages present. 0 or a negative errno. */
static int extend(struct agent *agent, unsigned number, uint64_t bytes)
{
    struct agent_session *session = &agent->state->session[number];
    int ring = session->ring;
    uint64_t now = session->ring_bytes;
    uint8_t *data = agent->ring[number] + PORTUS_RING_DATA;

    if (ftruncate(ring, (off_t)(PORTUS_RING_DATA + now + bytes)) < 0 && errno != EPERM)
        return -errno; /* EPERM: sealed against shrinking; it has been larger before */
    if (madvise(data + now, bytes, MADV_POPULATE_WRITE) < 0) {
        if (errno != EINVAL)
            return -errno;
        /* Before 5.14. fallocate fails where memory is short; a touch would raise SIGBUS. */
        if (fallocate(ring, 0, (off_t)(PORTUS_RING_DATA + now), (off_t)bytes) < 0)
            return -errno;
    }
    session->ring_bytes = now + bytes;
    atomic_store(&agent->control->session[number].ring_bytes, now + bytes);
    return 0;
}

int agent_ring_map(struct agent *agent, unsigned number)
{
    struct agent_session *session = &agent->state->session[number];
    uint8_t *memory = mmap(NULL, session->ring_map, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_NORESERVE, session->ring, 0);

    if (memory == MAP_FAILED)
        return -errno;
    madvise(memory, session->ring_map, MADV_HUGEPAGE);
    agent->ring[number] = memory;
    return 0;
}

int agent_session_open(struct agent *agent, const struct agent_peer *peer, uint64_t wanted)
{
    struct agent_session *session = NULL;
    struct portus_session *shared;
    uint64_t limit = agent->state->env.ring_size;
    unsigned number;
    int ring, error;

    for (number = 0; number < PORTUS_SESSIONS; number++)
        if (agent->state->session[number].ring == 0 &&
            atomic_load(&agent->control->session[number].state) == PORTUS_SESSION_FREE) {
            session = &agent->state->session[number];
            break;
        }
    if (session == NULL)
        return -EUSERS;
    if (wanted != 0)
        limit = limit == 0 ? wanted : least(limit, wanted);
    limit = limit == 0 ? PORTUS_RING_MAX : least(limit, PORTUS_RING_MAX);
    limit = (limit + HUGE - 1) / HUGE * HUGE;
    if (limit < FIRST)
        limit = FIRST;

    ring = memfd_create("portus-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ring < 0)
        return -errno;
    if (fchmod(ring, 0600) < 0 || ftruncate(ring, (off_t)PORTUS_RING_DATA) < 0 ||
        fcntl(ring, F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
        error = -errno;
        goto close;
    }
    agent->pace[number] = (struct agent_pace){.small = FIRST};
    session->tail = 0;
    session->stalled = 0;
    session->lines = 0;
    session->liar = false;
    session->ring_bytes = 0;
    session->ring_map = PORTUS_RING_DATA + limit;
    session->pidfd = peer->pidfd;
    session->ring = ring;
    error = agent_ring_map(agent, number);
    if (error != 0)
        goto forget;

    shared = &agent->control->session[number];
    atomic_store(&shared->pid, peer->pid);
    atomic_store(&shared->head, 0);
    atomic_store(&shared->tail, 0);
    atomic_store(&shared->captured, 0);
    atomic_store(&shared->drained, 0);
    atomic_store(&shared->wanted, 0);
    atomic_store(&shared->held, 0);
    atomic_store(&shared->ring_bytes, 0);
    atomic_store(&shared->claimed, PORTUS_UNCLAIMED);
    atomic_store(&shared->starved, 0);
    atomic_store(&shared->silent, 0);
    atomic_store(&shared->unpin, 0);
    atomic_store(&shared->pinned, 0);
    atomic_fetch_add(&shared->serial, 1);
    error = ceiling(agent, number) < FIRST ? -ENOMEM : extend(agent, number, FIRST);
    if (error != 0) {
        if (portus_log_some(&lacks))
            agent_error(agent, "no memory for the ring of process %u: it writes as usual",
                        peer->pid);
        error = -ENOMEM;
        goto unmap;
    }
    atomic_store(&shared->ring_goal, FIRST);
    atomic_store(&shared->state, PORTUS_SESSION_ACTIVE);
    return (int)number;

unmap:
    munmap(agent->ring[number], session->ring_map);
    agent->ring[number] = NULL;
forget:
    session->ring = session->pidfd = 0;
close:
    close(ring);
    return error;
}

bool agent_client_dead(const struct agent_session *session)
{
    struct pollfd event = {.fd = session->pidfd, .events = POLLIN};

    return session->pidfd == 0 || poll(&event, 1, 0) > 0;
}

void agent_session_leave(struct agent *agent, unsigned number)
{
    struct portus_session *shared = &agent->control->session[number];

    atomic_fetch_or(&shared->head, PORTUS_STOPPED);
    atomic_store(&shared->state, PORTUS_SESSION_DYING);
    agent_files_stop(agent, number + 1);
}

bool agent_session_end(struct agent *agent, unsigned number)
{
    struct agent_session *session = &agent->state->session[number];
    struct portus_session *shared = &agent->control->session[number];
    int ring = session->ring, pidfd = session->pidfd;

    if (ring != 0 && !agent_drained(agent, number))
        return false;
    if (agent->calling[number] != 0 || agent_files_count(agent, number + 1) != 0 ||
        !agent_pull_through(agent, number))
        return false;
    agent_pull_end(agent, number);
    if (agent->ring[number] != NULL)
        munmap(agent->ring[number], session->ring_map);
    agent->ring[number] = NULL;
    /* Places of files that were claimed and never sent, or that the client did not free. */
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *file = &agent->control->file[i];
        if (atomic_load(&file->owner) == number + 1) {
            if (atomic_load(&file->state) == PORTUS_FILE_CLAIMED)
                atomic_fetch_sub(&agent->control->live, 1);
            atomic_store(&file->state, PORTUS_FILE_FREE);
            atomic_store(&file->owner, 0);
        }
    }
    session->ring = session->pidfd = 0;
    if (ring != 0)
        close(ring);
    if (pidfd != 0)
        close(pidfd);
    atomic_store(&shared->ring_bytes, 0);
    atomic_store(&shared->ring_goal, 0);
    atomic_store(&shared->state, PORTUS_SESSION_FREE);
    agent_peers_forget(agent, number);
    agent_progress(agent);
    return true;
}

bool agent_rings_grow(struct agent *agent)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        struct portus_session *shared = &agent->control->session[i];
        uint64_t now, goal, wanted;

        if (atomic_load(&shared->state) != PORTUS_SESSION_ACTIVE || agent->ring[i] == NULL)
            continue;
        now = agent->state->session[i].ring_bytes;
        wanted = atomic_load(&shared->wanted);
        if (wanted == 0 || wanted > PORTUS_RING_MAX || wanted + SLACK / 2 <= now) {
            if (atomic_load(&shared->ring_goal) > now) /* nearly what was wanted is enough */
                atomic_store(&shared->ring_goal, now);
            continue;
        }
        goal = (wanted + SLACK + HUGE - 1) / HUGE * HUGE;
        goal = least(goal, ceiling(agent, i));
        atomic_store(&shared->ring_goal, goal > now ? goal : now);
        if (goal <= now)
            continue;
        if (extend(agent, i, least(STEP, goal - now)) != 0) {
            atomic_store(&shared->wanted, 0); /* asks again with the next save */
            atomic_store(&shared->ring_goal, now);
            continue;
        }
        if (agent->state->session[i].ring_bytes >= goal)
            portus_futex_advance(&agent->control->finished);
        return true;
    }
    return false;
}

/* Gives a ring's memory back, all but the first bytes, if nothing is in it. */
static bool shrink(struct agent *agent, unsigned number)
{
    struct agent_session *session = &agent->state->session[number];
    struct portus_session *shared = &agent->control->session[number];
    uint64_t head = session->tail << 1, now = session->ring_bytes;

    if (now <= FIRST || atomic_load(&shared->state) != PORTUS_SESSION_ACTIVE)
        return false;
    if (atomic_load(&shared->pinned) != 0 || atomic_load(&shared->held) != 0) {
        atomic_store(&shared->unpin, 1); /* at its next call of CUDA's */
        return false;
    }
    if (!atomic_compare_exchange_strong(&shared->head, &head, head | PORTUS_STOPPED))
        return false;
    /* Nothing is reserved, and nothing can be until the flag goes. */
    agent_pull_revoke(agent, number);
    if (atomic_load(&shared->held) != 0 || atomic_load(&shared->pinned) != 0) {
        atomic_fetch_and(&shared->head, ~PORTUS_STOPPED);
        return false;
    }
    atomic_store(&shared->wanted, 0);
    atomic_store(&shared->ring_goal, FIRST);
    session->ring_bytes = FIRST;
    atomic_store(&shared->ring_bytes, FIRST);
    fallocate(session->ring, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(PORTUS_RING_DATA + FIRST), (off_t)(now - FIRST));
    atomic_fetch_and(&shared->head, ~PORTUS_STOPPED);
    agent_progress(agent);
    return true;
}

/*
 * A program in a cgroup with a limit may take what is free within a moment, and is killed if it is
 * not there: rings cannot be reclaimed. So the less is free the sooner this is called again.
 */
uint64_t agent_rings_relieve(struct agent *agent)
{
    uint64_t rings = all_rings(agent), given = 0, headroom, sooner;
    bool large = false;

    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        large |= agent->state->session[i].ring != 0 && agent->state->session[i].ring_bytes > FIRST;
    if (!large)
        return LOOK_NS;
    headroom = portus_memory_headroom();
    if (headroom >= rings / 2) {
        for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
            if (atomic_load(&agent->control->session[i].unpin) != 0)
                atomic_store(&agent->control->session[i].unpin, 0);
        sooner = (headroom - rings / 2) / FILLS;
        return sooner > LOOK_NS ? LOOK_NS : sooner < LOOK_LEAST_NS ? LOOK_LEAST_NS : sooner;
    }
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (agent->state->session[i].ring != 0 && shrink(agent, i))
            given++;
    if (given > 0)
        log_info("memory is short: %llu rings are given back, the next saves are slower",
                 (unsigned long long)given);
    return LOOK_LEAST_NS;
}
