/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.c -- lets the store pull a file's bytes out of its ring while it is saved
 *
 * The store gets a session's ring, the name of each file that engages, and is told how far
 * the log is filled; it copies, and says how far it has come. Until then the records are
 * claimed (ring.h). When the file is whole only what the log did not hold is read from it.
 *
 * What was pulled may stand for the file's bytes if nothing else has changed them: nobody
 * but the program could while the lease was held, and it says so (portus_file.aside); and
 * size and mtime are still what they were when the lease was given up (store.c asks). So a
 * file is held until the clock of its times has moved on: a later change shows in them.
 * ctime does not count, a rename changes it.
 *
 * Nothing depends on it: a draft that is lost is a file that is copied whole. So a client
 * that finds no room because of a claim gets it at once.
 *
 * A copy out of a ring slows the program's copy into it: they share the memory's bandwidth, and
 * often a processor. So what there is room for is pulled when the program pauses.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/listing.h"
#include "common/log.h"
#include "common/message.h"
#include "common/trace.h"

/* In place of a draft: it was committed, up to what `sealed` says. */
#define KEPT UINT32_MAX

#define SEAL_NS 1000000000ull
#define PAUSE_NS 20000000ull  /* nothing was appended: the program has paused */
#define HOLD_NS 2000000000ull /* records wait no longer; then all are pulled */
#define SPARE (16ull << 20)   /* bytes of a ring that are not waited for to fill */
/* Records that are pulled in one go, but by another machine: its round trips are longer. */
#define GO 64
#define AHEAD_NS 100000000ll /* a clock that is further behind a file's time was set back */

static bool say_with(struct agent *agent, enum portus_op op, uint32_t value, uint64_t size,
                     uint32_t flags, const int *fds, unsigned count)
{
    struct portus_message message = portus_message_make(op);

    message.value = value;
    message.size = size;
    message.flags = flags;
    return portus_message_send(agent->state->store, &message, fds, count) == 0;
}

static bool say(struct agent *agent, enum portus_op op, uint32_t value, uint64_t size,
                uint32_t flags, const int *fd)
{
    return say_with(agent, op, value, size, flags, fd, fd != NULL ? 1 : 0);
}

static void claim(struct agent *agent, unsigned session, uint64_t from)
{
    atomic_store(&agent->control->session[session].claimed, from);
    agent_progress(agent);
}

void agent_pull_drop(struct agent *agent, uint32_t id)
{
    /* One that does not get this keeps the draft's room: it is better started anew. */
    if (id != KEPT && agent->state->store_ready &&
        !say(agent, PORTUS_OP_STORE_DROP, id, 0, 0, NULL))
        agent_store_silent(agent);
}

/* The ring goes to the store; its records count from the tail on. */
static bool offer(struct agent *agent, unsigned session)
{
    struct agent_pull *pull = &agent->state->pull[session];
    uint64_t tail = agent->state->session[session].tail;
    uint32_t ring = ++agent->state->ring_ids & 0xffff;
    int fd;

    if (ring == 0)
        ring = ++agent->state->ring_ids & 0xffff;
    fd = agent_reopen(agent->state->session[session].ring, O_RDONLY);
    if (fd < 0)
        return false;
    /* Claimed before it is said: an offer that failed, or a worker that dies, costs a moment. */
    *pull = (struct agent_pull){.ring = ring, .upto = tail, .since = portus_now()};
    claim(agent, session, tail);
    if (!say(agent, PORTUS_OP_STORE_RING, ring, tail, 0, &fd)) {
        pull->ring = 0;
        claim(agent, session, PORTUS_UNCLAIMED);
    }
    close(fd);
    return pull->ring != 0;
}

/* The store's draft of a file that has engaged: its number, or 0. */
static uint32_t draft(struct agent *agent, unsigned number, uint32_t ring, uint64_t from)
{
    uint32_t id = ++agent->state->keep_ids;
    int name, fds[2];
    unsigned count = 0;
    bool said;

    if (id == KEPT)
        id = agent->state->keep_ids = 1;
    if (!agent->state->leased[number])
        return 0;
    name = agent_reopen(agent->state->file[number], O_PATH);
    if (name < 0)
        return 0;
    fds[count++] = name;
    /* A store of several users has no right to ask what a name is the name of. */
    if (agent_store_shared(agent) && (fds[count] = listing_below(agent->state->file[number])) >= 0)
        count++;
    said = say_with(agent, PORTUS_OP_STORE_DRAFT, id, from, ring << 16 | number, fds, count);
    while (count > 0)
        close(fds[--count]);
    return said ? id : 0;
}

void agent_pull_begin(struct agent *agent, unsigned number)
{
    struct agent_state *state = agent->state;
    unsigned session = state->owner[number] - 1;
    struct agent_pull *pull = &state->pull[session];
    uint64_t from = state->session[session].tail;

    state->draft[number] = 0;
    state->sealed[number] = UINT64_MAX;
    state->seal_since[number] = 0;
    if (!agent_store_configured(agent))
        return;
    if (!state->store_ready) {
        agent->store_wanted = true; /* for the next one */
        return;
    }
    if (!(atomic_load(&agent->control->store) & PORTUS_WELCOME_STORE) ||
        (pull->ring == 0 && !offer(agent, session)))
        return;
    state->draft[number] = draft(agent, number, pull->ring, from);
    /* Or the store would take its records for those of the file that had this number before. */
    if (state->draft[number] == 0 &&
        !say(agent, PORTUS_OP_STORE_DRAFT, 0, from, pull->ring << 16 | number, NULL))
        agent_pull_revoke(agent, session);
}

void agent_pull_revoke(struct agent *agent, unsigned session)
{
    struct agent_state *state = agent->state;
    struct agent_pull *pull = &state->pull[session];
    uint64_t pulled = atomic_load(&agent->control->session[session].claimed);

    if (pull->ring == 0)
        return;
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        uint64_t last = atomic_load(&agent->control->file[i].last);
        if (state->draft[i] == 0 || state->draft[i] == KEPT || state->owner[i] != session + 1 ||
            ((last & PORTUS_STOPPED) && last >> 1 <= pulled))
            continue;
        agent_pull_drop(agent, state->draft[i]);
        state->draft[i] = 0;
    }
    for (unsigned i = 0; i < AGENT_KEEPS; i++) {
        struct agent_keep *keep = &state->keep[i];
        if (keep->state == 0 || !keep->drafted || keep->ring != pull->ring || keep->last <= pulled)
            continue;
        agent_pull_drop(agent, keep->id);
        keep->drafted = false;
    }
    agent_pull_end(agent, session);
}

void agent_pull_end(struct agent *agent, unsigned session)
{
    struct agent_pull *pull = &agent->state->pull[session];

    if (pull->ring == 0)
        return;
    if (agent->state->store_ready && !say(agent, PORTUS_OP_STORE_RING, pull->ring, 0, 0, NULL))
        agent_store_silent(agent);
    pull->ring = 0;
    atomic_store(&agent->control->session[session].starved, 0);
    claim(agent, session, PORTUS_UNCLAIMED);
}

void agent_pull_forget(struct agent *agent)
{
    struct agent_state *state = agent->state;

    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        uint32_t id = state->draft[i];
        state->draft[i] = 0;
        if (id != 0)
            agent_pull_drop(agent, id);
    }
    for (unsigned i = 0; i < AGENT_KEEPS; i++) {
        struct agent_keep *keep = &state->keep[i];
        bool drafted = keep->drafted;
        keep->drafted = keep->kept = false;
        if (drafted && keep->state != 0)
            agent_pull_drop(agent, keep->id);
    }
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        agent_pull_end(agent, i);
        claim(agent, i, PORTUS_UNCLAIMED); /* a worker may have died between the two */
    }
}

bool agent_pull_through(const struct agent *agent, unsigned session)
{
    return agent->state->pull[session].ring == 0 ||
           atomic_load(&agent->control->session[session].claimed) >=
               agent->state->session[session].tail;
}

bool agent_pull_has(const struct agent *agent, const struct agent_keep *keep)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (agent->state->pull[i].ring == keep->ring)
            return atomic_load(&agent->control->session[i].claimed) >= keep->last;
    return true; /* it had all when the ring went */
}

void agent_pull_heard(struct agent *agent, uint32_t ring, uint64_t upto)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        struct agent_pull *pull = &agent->state->pull[i];
        if (pull->ring != ring || ring == 0 || !pull->asked || upto != pull->upto)
            continue;
        pull->asked = false;
        if (portus_trace_on())
            agent_trace_pulled(agent, i, pull->since,
                               upto - atomic_load(&agent->control->session[i].claimed));
        claim(agent, i, upto);
    }
}

/* Whether a record's file has come, so that the store knows of it; or is gone again. */
static bool known(const struct agent *agent, unsigned session, uint64_t sequence,
                  const struct portus_record *record)
{
    return sequence < agent->state->session[session].tail || record->length == 0 ||
           record->file >= PORTUS_FILES ||
           (agent->state->file[record->file] != 0 &&
            agent->state->owner[record->file] == session + 1);
}

/* How far the records from sequence on are filled, and may be pulled in one go. */
static uint64_t filled(const struct agent *agent, unsigned session, uint64_t sequence)
{
    const struct portus_record *ring = (const struct portus_record *)agent->ring[session];
    uint64_t end = atomic_load(&agent->control->session[session].head) >> 1;

    if (end - sequence > PORTUS_RECORDS)
        return sequence;
    if (!agent_store_far(agent) && end - sequence > GO)
        end = sequence + GO; /* what was pulled is soon free */
    for (; sequence < end; sequence++) {
        const struct portus_record *record = &ring[sequence % PORTUS_RECORDS];
        if (atomic_load_explicit(&record->stamp, memory_order_acquire) != sequence + 1 ||
            !known(agent, session, sequence, record))
            break;
    }
    return sequence;
}

/*
 * Files that somebody waits for to be committed, before they are drained. Not tried again
 * for what could not be: it did not all pass the ring.
 */
static void seal(struct agent *agent, unsigned session)
{
    struct agent_state *state = agent->state;
    uint64_t pulled = atomic_load(&agent->control->session[session].claimed);

    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *file = &agent->control->file[i];
        struct portus_message message = portus_message_make(PORTUS_OP_STORE_SEAL);
        uint64_t last = atomic_load(&file->last) >> 1;

        if (state->draft[i] == 0 || state->draft[i] == KEPT || state->owner[i] != session + 1 ||
            state->sealed[i] == last || last > pulled || atomic_load(&file->error) != 0 ||
            atomic_load(&file->aside) != 0 ||
            (atomic_load(&file->closed) == 0 && atomic_load(&file->sealing) == 0))
            continue;
        message.value = state->draft[i];
        message.size = atomic_load(&file->size);
        message.time = (int64_t)atomic_load(&file->written);
        if (portus_message_send(state->store, &message, NULL, 0) != 0)
            continue;
        state->sealed[i] = last;
        state->seal_since[i] = portus_now();
    }
}

void agent_pull_sealed(struct agent *agent, uint32_t id, int error)
{
    struct agent_state *state = agent->state;

    if (id == 0 || id == KEPT)
        return; /* no draft's: STORE_ALIVE is answered with 0 */
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        if (state->draft[i] != id)
            continue;
        state->seal_since[i] = 0;
        if (error == 0) {
            state->draft[i] = KEPT;
            atomic_store(&agent->control->file[i].kept, state->sealed[i]);
        } else if (error != -EAGAIN) {
            state->draft[i] = 0;
        }
        atomic_store(&agent->control->file[i].sealing, 0);
        agent_progress(agent);
    }
}

/* What somebody waits for, and what is pulled without a processor, is pulled at once. */
static bool at_once(const struct agent *agent)
{
    return agent->state->env.order == PORTUS_ORDER_RELAXED || agent_store_far(agent);
}

/* Programs that have not paused are seen by their heads. */
static void look(struct agent *agent, uint64_t now)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        uint64_t head = atomic_load(&agent->control->session[i].head);

        if (agent->pace[i].head == head)
            continue;
        agent->pace[i].head = head;
        agent->appended = now;
    }
}

/* Whether the session's records may wait until the programs pause. */
static bool may_wait(struct agent *agent, unsigned session, uint64_t now)
{
    const struct portus_session *shared = &agent->control->session[session];
    struct agent_pace *pace = &agent->pace[session];
    uint64_t room = agent->state->session[session].ring_bytes;

    if (pace->since == 0)
        pace->since = now;
    return !at_once(agent) && now - agent->appended < PAUSE_NS && now - pace->since < HOLD_NS &&
           room > pace->small && atomic_load(&shared->wanted) <= room &&
           atomic_load(&shared->captured) - pace->base < room - SPARE;
}

static bool turn(struct agent *agent, unsigned session, uint64_t now)
{
    struct agent_pull *pull = &agent->state->pull[session];
    struct agent_pace *pace = &agent->pace[session];
    uint64_t end;

    if (atomic_load(&agent->control->session[session].starved) != 0) {
        log_debug("the store is too slow: what it has not pulled it will read from the file");
        pace->small = agent->state->session[session].ring_bytes;
        agent_pull_revoke(agent, session);
        return false;
    }
    if (agent->state->env.order == PORTUS_ORDER_RELAXED)
        seal(agent, session);
    if (pull->asked)
        return true;
    end = filled(agent, session, pull->upto);
    if (end == pull->upto) {
        /* Passed over by the drain: its client died in the middle of it. */
        if (agent->state->session[session].tail > end)
            agent_pull_revoke(agent, session);
        else if (agent_drained(agent, session))
            pace->base = atomic_load(&agent->control->session[session].captured);
        pace->since = 0;
        return false;
    }
    if (may_wait(agent, session, now))
        return true;
    pull->asked = true; /* before it is: another worker must not take the answer for none */
    pull->upto = end;
    pull->since = portus_now();
    if (!say(agent, PORTUS_OP_STORE_PULL, pull->ring, end, 0, NULL))
        agent_pull_revoke(agent, session);
    return true;
}

/* Nobody need wait for what will not be committed before its file is closed. */
static void refuse_seals(struct agent *agent)
{
    struct agent_state *state = agent->state;

    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *file = &agent->control->file[i];

        if (state->owner[i] == 0 || atomic_load(&file->sealing) == 0 || state->seal_since[i] != 0 ||
            (state->draft[i] != 0 && state->draft[i] != KEPT && atomic_load(&file->error) == 0 &&
             atomic_load(&file->aside) == 0 && state->sealed[i] != atomic_load(&file->last) >> 1))
            continue;
        atomic_store(&file->sealing, 0);
        agent_progress(agent);
    }
}

bool agent_pull_turn(struct agent *agent)
{
    uint64_t now = portus_now();
    bool did = false;

    refuse_seals(agent);
    if (!at_once(agent))
        look(agent, now);
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (agent->state->pull[i].ring != 0 && agent->ring[i] != NULL)
            did |= turn(agent, i, now);
    return did;
}

bool agent_pull_stamp(struct agent *agent, unsigned number, int fd, struct agent_keep *keep)
{
    struct agent_state *state = agent->state;
    const struct portus_file *file = &agent->control->file[number];
    uint32_t id = state->draft[number];
    struct timespec now;
    struct stat status;
    int64_t behind;

    memset(keep, 0, sizeof(*keep));
    if (id == 0)
        return true;
    /* Without its lease, or with one that a writer waits for: others may have changed it. */
    if (atomic_load(&file->closed) == 0 || atomic_load(&file->error) != 0 ||
        atomic_load(&file->aside) != 0 || fcntl(fd, F_GETLEASE) == F_UNLCK ||
        fstat(fd, &status) < 0 || clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0)
        goto drop;
    if (id != KEPT && state->seal_since[number] != 0) {
        if (portus_now() - state->seal_since[number] < SEAL_NS)
            return false; /* in a moment it is kept, or not */
        goto drop;
    }
    if (id == KEPT && state->sealed[number] != atomic_load(&file->last) >> 1)
        goto drop; /* it was written since */
    behind = (int64_t)(status.st_mtim.tv_sec - now.tv_sec) * 1000000000 + status.st_mtim.tv_nsec -
             now.tv_nsec;
    if (behind > AHEAD_NS)
        goto drop;
    if (behind >= 0)
        return false;
    keep->drafted = id != KEPT;
    keep->kept = id == KEPT;
    keep->id = id;
    keep->ring = state->pull[state->owner[number] - 1].ring;
    keep->last = atomic_load(&file->last) >> 1;
    keep->size = (uint64_t)status.st_size;
    keep->mtime = status.st_mtim;
    state->draft[number] = 0;
    return true;

drop:
    agent_pull_drop(agent, id);
    state->draft[number] = 0;
    return true;
}
