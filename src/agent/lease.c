/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lease.c -- engaged files: from their description's arrival to their being ordinary
 *
 * The shim has taken a write lease on the very description that it sends, so every
 * other opener waits in open(2) until the lease is dropped here. When somebody
 * waits, the kernel signals the keeper; the signal says too little (its si_fd is the
 * setter's number), so each lease is asked.
 *
 * A file is finished when it is stopped and the tail has passed its last record:
 * surplus blocks are trimmed, then the lease goes, then our descriptor. Trimming is
 * truncating to the size that the file has: only while nobody writes it, so not while
 * the program still may (stdio does without our seeing it), and not once the lease is
 * gone, which is why it is marked as done before.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/trace.h"

int agent_file_engage(struct agent *agent, unsigned session, uint32_t number, uint64_t inode,
                      int fd)
{
    struct agent_state *state = agent->state;
    struct portus_file *file;
    struct statx status;
    int flags = fcntl(fd, F_GETFL);

    if (number >= PORTUS_FILES)
        return -EPROTO;
    file = &agent->control->file[number];
    if (atomic_load(&file->owner) != session + 1)
        return 0;                 /* late: its number has been given back */
    if (state->file[number] != 0) /* noted by a worker that was killed before it had dropped it */
        return state->owner[number] == session + 1 ? 0 : -EPROTO;
    /* What cannot be learnt is not held against it: to refuse a file is to lose its bytes. */
    if (flags >= 0 && ((flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY))
        return -EPROTO;
    /* Without asking a server, which may not answer. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &status) == 0 &&
        (!S_ISREG(status.stx_mode) || status.stx_ino != inode))
        return -EPROTO;
    if (file->inode != inode)
        return 0; /* late: its number is another file's by now */
    state->owner[number] = session + 1;
    state->leased[number] = atomic_load(&file->leaseless) == 0;
    agent->begun[number] = 0;
    agent->device[number] = agent_device(fd);
    state->file[number] = fd;
    atomic_store(&file->state, PORTUS_FILE_LIVE);
    if (atomic_load(&agent->control->passive) != PORTUS_CAPTURING)
        atomic_fetch_or(&file->last, PORTUS_STOPPED);
    else if (state->leased[number] && fcntl(fd, F_GETLEASE) != F_WRLCK)
        atomic_fetch_or(&file->last, PORTUS_STOPPED); /* broken while it travelled */
    if (portus_trace_on())
        agent_trace_live(agent, number, true);
    agent_pull_begin(agent, number);
    return 1;
}

void agent_files_resume(struct agent *agent)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (agent->state->file[i] != 0)
            agent->device[i] = agent_device(agent->state->file[i]);
}

void agent_files_broken(struct agent *agent)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (agent->state->file[i] != 0 && agent->state->leased[i] &&
            fcntl(agent->state->file[i], F_GETLEASE) != F_WRLCK)
            atomic_fetch_or(&agent->control->file[i].last, PORTUS_STOPPED);
}

void agent_files_stop(struct agent *agent, unsigned session)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (agent->state->file[i] != 0 && (session == 0 || agent->state->owner[i] == session))
            atomic_fetch_or(&agent->control->file[i].last, PORTUS_STOPPED);
}

unsigned agent_files_count(const struct agent *agent, unsigned session)
{
    unsigned count = 0;

    for (unsigned i = 0; i < PORTUS_FILES; i++)
        count += agent->state->file[i] != 0 && (session == 0 || agent->state->owner[i] == session);
    return count;
}

/*
 * A file that its program has closed was changed when the program wrote it, not when the
 * drain did. Where this is not allowed (another user's file) it keeps the later time.
 */
static void date(const struct agent *agent, unsigned number, int fd)
{
    const struct portus_file *file = &agent->control->file[number];
    uint64_t written = atomic_load(&file->written);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {(time_t)(written / 1000000000), (long)(written % 1000000000)}};

    if (written != 0 && atomic_load(&file->closed) != 0 && atomic_load(&file->aside) == 0 &&
        agent->state->leased[number] && fcntl(fd, F_GETLEASE) != F_UNLCK)
        futimens(fd, times);
}

/* Blocks beyond its end. 0 or an errno. */
static int trim(const struct portus_file *file, int fd)
{
    struct stat status;

    if (atomic_load(&file->quiet) == 0 || atomic_load(&file->reserved_end) == 0 ||
        fstat(fd, &status) < 0 || atomic_load(&file->reserved_end) <= (uint64_t)status.st_size)
        return 0;
    return ftruncate(fd, status.st_size) < 0 ? errno : 0;
}

/* Whether it is one; else it is asked again in a moment. */
static bool finish(struct agent *agent, unsigned number, unsigned session)
{
    struct agent_state *state = agent->state;
    struct portus_file *file = &agent->control->file[number];
    uint64_t device = agent->device[number];
    int fd = state->file[number], error = 0;
    struct agent_keep known;

    agent_call(agent, device, file->path);
    if (atomic_load(&file->state) != PORTUS_FILE_TRIMMED)
        error = trim(file, fd);
    atomic_store(&file->state, PORTUS_FILE_TRIMMED);
    date(agent, number, fd);
    agent_called(agent);
    if (error != 0 && agent_may_say(agent, session))
        agent_error(agent, "%.*s: blocks reserved beyond its end stay with it: %s",
                    PORTUS_FILE_PATH - 1, file->path, strerror(error));
    if (!agent_pull_stamp(agent, number, fd, &known)) {
        agent->stamping = true;
        return false;
    }
    if (state->leased[number])
        fcntl(fd, F_SETLEASE, F_UNLCK);
    /* What ext4 does at close, unless all blocks are reserved: see preload/habit.c. */
    if (atomic_load(&file->replaces) != 0) {
        agent_call(agent, device, file->path);
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        agent_called(agent);
    }
    agent_metrics_whole(agent, number);
    if (portus_trace_on())
        agent_trace_live(agent, number, false);
    agent_store_take(agent, number, fd, &known);
    state->file[number] = 0;
    state->owner[number] = 0;
    agent_call(agent, device, file->path); /* which waits for what a server has not yet */
    close(fd);
    agent_called(agent);
    atomic_fetch_add(&agent->control->drained_files, 1);
    atomic_store(&file->state, PORTUS_FILE_DONE);
    agent_progress(agent);
    portus_futex_advance(&agent->control->finished);
    /* After it: who sees no live files must see that one has finished. */
    atomic_fetch_sub(&agent->control->live, 1);
    return true;
}

/* Whether a session's client has left and all of its log is replayed. */
static bool ended(const struct agent *agent, uint32_t session)
{
    const struct portus_session *shared = &agent->control->session[session];

    return atomic_load(&shared->state) == PORTUS_SESSION_DYING && agent_drained(agent, session) &&
           agent->replaying[session] == 0;
}

bool agent_files_finish(struct agent *agent)
{
    bool did = false;

    agent->stamping = false;
    for (unsigned i = 0; i < PORTUS_FILES && !agent_lost(agent); i++) {
        uint32_t owner = agent->state->owner[i];
        uint64_t last;

        if (agent->state->file[i] == 0 || owner == 0)
            continue;
        last = atomic_load(&agent->control->file[i].last);
        /* Once a session has ended its client may be one that goes on to change its entries. */
        if ((ended(agent, owner - 1) ||
             ((last & PORTUS_STOPPED) && last >> 1 <= agent->state->session[owner - 1].tail)) &&
            !agent_call_away(agent, agent->device[i])) {
            agent->calling[owner - 1]++; /* so that its session stays */
            did |= finish(agent, i, owner - 1);
            agent->calling[owner - 1]--;
        }
    }
    return did;
}
