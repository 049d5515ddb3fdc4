/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drain.c -- replays the log into the files
 *
 * Records are taken strictly in order. Neighbours that continue each other in the
 * same file are written by one call, up to the end of a piece; what is large goes out
 * in smaller writes, aligned in the file, of the size that file systems take fastest.
 *
 * Replaying a record twice does no harm (the bytes are the same, and nothing
 * later can have reached the file), so the tail is advanced after the write and a
 * killed worker loses nothing.
 *
 * An error stays with its file: later records of it are passed over, so that what
 * stands is short and not holed, and the program's next call that relies on the
 * bytes returns it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/trace.h"

#define PIECE (1ull << 20)
#define WRITE (128ull << 10)
#define PART (16ull << 20)
#define VECTORS 16
#define STALL_NS 10000000000ull

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x00000020 /* 6.9: at the offset even if the program has set O_APPEND */
#endif

/* A checked copy of a record. */
struct piece {
    uint32_t file;
    uint64_t offset;
    uint64_t length;
    uint64_t records;
    int vectors;
    struct iovec vector[VECTORS];
};

/* A copy of the record at sequence; false when its client has not finished it. */
static bool ready(const struct agent *agent, unsigned number, uint64_t sequence,
                  struct portus_record *out)
{
    struct portus_record *ring = (struct portus_record *)agent->ring[number];
    struct portus_record *record = &ring[sequence % PORTUS_RECORDS];

    if (atomic_load_explicit(&record->stamp, memory_order_acquire) != sequence + 1)
        return false;
    out->offset = record->offset;
    out->data = record->data;
    out->length = record->length;
    out->file = record->file;
    return true;
}

/* Whether what a client wrote into a record can be acted upon. */
static bool sound(const struct agent *agent, unsigned number, const struct portus_record *record)
{
    uint64_t ring = agent->state->session[number].ring_map - PORTUS_RING_DATA;

    return record->length <= PORTUS_CHUNK && record->file < PORTUS_FILES && record->data <= ring &&
           record->length <= ring - record->data && record->offset <= INT64_MAX - PORTUS_CHUNK;
}

static int write_piece(int fd, struct piece *piece)
{
    static _Atomic int known = RWF_NOAPPEND;
    int flags = atomic_load(&known);
    struct iovec *vector = piece->vector;
    int vectors = piece->vectors;
    uint64_t offset = piece->offset;

    while (vectors > 0) {
        size_t most = WRITE - offset % WRITE;
        struct iovec part = {vector->iov_base, vector->iov_len < most ? vector->iov_len : most};
        bool whole = part.iov_len == vector->iov_len;
        ssize_t written =
            pwritev2(fd, whole ? vector : &part, whole ? vectors : 1, (off_t)offset, flags);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && (errno == EOPNOTSUPP || errno == ENOSYS) && flags != 0) {
            atomic_store(&known, flags = 0);
            continue;
        }
        if (written <= 0)
            return written < 0 ? errno : EIO;
        offset += (uint64_t)written;
        while (vectors > 0 && (size_t)written >= vector->iov_len) {
            written -= (ssize_t)vector->iov_len;
            vector++;
            vectors--;
        }
        if (vectors > 0) {
            vector->iov_base = (char *)vector->iov_base + written;
            vector->iov_len -= (size_t)written;
        }
    }
    return 0;
}

/*
 * The program is about to wait until this file is on the disk: the disk begins now, a
 * part behind the drain. It is not waited for: that would take the program's errors.
 */
static void hurry(struct agent *agent, unsigned file, int fd, uint64_t end)
{
    uint64_t *begun = &agent->begun[file];

    if (end < *begun + PART)
        return;
    sync_file_range(fd, (off_t)*begun, (off_t)(end / PART * PART - *begun), SYNC_FILE_RANGE_WRITE);
    *begun = end / PART * PART;
}

/* Collects the records from sequence on that one call can write. */
static void collect(const struct agent *agent, unsigned number, uint64_t sequence, uint64_t head,
                    const struct portus_record *first, struct piece *piece)
{
    struct portus_record record = *first;
    uint64_t end = (first->offset / PIECE + 1) * PIECE;

    memset(piece, 0, sizeof(*piece));
    piece->file = first->file;
    piece->offset = first->offset;
    do {
        piece->vector[piece->vectors++] =
            (struct iovec){agent->ring[number] + PORTUS_RING_DATA + record.data, record.length};
        piece->length += record.length;
        piece->records++;
    } while (piece->vectors < VECTORS && sequence + piece->records < head &&
             ready(agent, number, sequence + piece->records, &record) &&
             sound(agent, number, &record) && record.length > 0 && record.file == piece->file &&
             record.offset == piece->offset + piece->length &&
             record.offset + record.length <= end);
}

static void advance(struct agent *agent, unsigned number, uint64_t records)
{
    struct agent_session *session = &agent->state->session[number];

    session->tail += records;
    session->stalled = 0;
    atomic_store(&agent->control->session[number].tail, session->tail);
    atomic_store(&agent->control->session[number].silent, 0);
    agent_progress(agent);
}

bool agent_drained(const struct agent *agent, unsigned number)
{
    const struct agent_session *session = &agent->state->session[number];

    return session->liar ||
           atomic_load(&agent->control->session[number].head) >> 1 == session->tail;
}

/*
 * A client that lies loses its session: what came before is in its files. It may go on to write
 * into its log, of which nothing counts any more.
 */
static void give_up(struct agent *agent, unsigned number, const char *what)
{
    struct agent_session *session = &agent->state->session[number];
    struct portus_session *shared = &agent->control->session[number];
    uint64_t head;

    if (agent_may_say(agent, number))
        agent_error(agent, "process %u: %s: its session is closed, its last bytes are lost",
                    atomic_load(&shared->pid), what);
    session->liar = true;
    agent_peers_deafen(agent, number);
    head = atomic_fetch_or(&shared->head, PORTUS_STOPPED) >> 1;
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (agent->state->owner[i] == number + 1 && agent->state->file[i] != 0)
            atomic_store(&agent->control->file[i].error, EIO);
    agent_session_leave(agent, number);
    session->tail = head;
    atomic_store(&shared->tail, head);
    agent_progress(agent);
}

/* The next record is reserved and not ready. */
static bool wait_or_skip(struct agent *agent, unsigned number)
{
    struct agent_session *session = &agent->state->session[number];

    if (agent_client_dead(session)) {
        advance(agent, number, 1); /* its write never returned to anybody */
        return true;
    }
    if (session->stalled == 0)
        session->stalled = portus_now();
    else if (portus_now() - session->stalled > STALL_NS) {
        if (agent_may_say(agent, number))
            log_warn("process %u has been filling one record for 10 s: its drain waits for it",
                     atomic_load(&agent->control->session[number].pid));
        session->stalled = portus_now();
    }
    return false;
}

/*
 * The next record's file system has not returned from a call: it waits. Others learn of it if that
 * takes long and it is none of this machine: see portus_session.silent.
 */
static bool hold(struct agent *agent, unsigned number, unsigned file)
{
    struct portus_session *shared = &agent->control->session[number];
    uint64_t device = agent->device[file];

    agent->held[number] = true;
    if (!agent->state->leased[file] && atomic_load(&shared->silent) != device &&
        agent_call_silent(agent, device)) {
        atomic_store(&shared->silent, device);
        agent_progress(agent);
    }
    return false;
}

/* Writes a piece to its file. 0 or an errno. */
static int write_file(struct agent *agent, unsigned number, struct piece *piece)
{
    const struct portus_file *file = &agent->control->file[piece->file];
    uint64_t end = piece->offset + piece->length;
    bool hurried = atomic_load(&file->hurried) != 0;
    int fd = agent->state->file[piece->file], error;

    agent->replaying[number] = piece->file + 1;
    agent->calling[number]++;
    agent_call(agent, agent->device[piece->file], file->path);
    error = write_piece(fd, piece);
    if (error == 0 && hurried)
        hurry(agent, piece->file, fd, end);
    agent_called(agent);
    agent->calling[number]--;
    agent->replaying[number] = 0;
    return error;
}

bool agent_drain(struct agent *agent, unsigned number)
{
    struct agent_session *session = &agent->state->session[number];
    struct portus_session *shared = &agent->control->session[number];
    uint64_t head = atomic_load(&shared->head) >> 1;
    struct portus_record record;
    struct portus_file *file;
    struct piece piece;
    int fd, error = 0;

    agent->held[number] = false;
    if (agent->replaying[number] != 0)
        return hold(agent, number, agent->replaying[number] - 1);
    if (head == session->tail)
        return false;
    if (session->liar) {
        session->tail = head;
        atomic_store(&shared->tail, head);
        return false;
    }
    if (head - session->tail > PORTUS_RECORDS) {
        give_up(agent, number, "an impossible log");
        return true;
    }
    if (!ready(agent, number, session->tail, &record))
        return wait_or_skip(agent, number);
    if (!sound(agent, number, &record)) {
        give_up(agent, number, "an impossible record");
        return true;
    }
    if (record.length == 0) {
        advance(agent, number, 1);
        return true;
    }
    fd = agent->state->file[record.file];
    if (fd == 0 || agent->state->owner[record.file] != number + 1) {
        /* The message with its descriptor is on its way, unless all that came has been read. */
        if (atomic_load(&shared->state) == PORTUS_SESSION_ACTIVE)
            return false;
        if (atomic_load(&agent->control->file[record.file].owner) == number + 1)
            atomic_store(&agent->control->file[record.file].error, EIO);
        if (agent_may_say(agent, number))
            agent_error(agent, "process %u: a record of a file that it never sent: passed over",
                        atomic_load(&shared->pid));
        advance(agent, number, 1);
        return true;
    }
    if (agent_call_away(agent, agent->device[record.file]))
        return hold(agent, number, record.file);
    atomic_store(&shared->silent, 0);
    collect(agent, number, session->tail, head, &record, &piece);
    file = &agent->control->file[record.file];
    if (atomic_load(&file->error) == 0) {
        uint64_t began = portus_trace_on() ? portus_now() : 0;

        error = write_file(agent, number, &piece);
        if (began != 0)
            agent_trace_drain(agent, number, record.file, began, piece.length);
        if (error != 0) {
            if (agent_may_say(agent, number))
                agent_error(agent, "%.*s: %s: the file is incomplete, its program is told",
                            PORTUS_FILE_PATH - 1, file->path, strerror(error));
            atomic_store(&file->error, (uint32_t)error);
        }
    }
    agent_metrics_drained(agent, record.file, piece.length, error);
    atomic_fetch_add(&file->drained, piece.length);
    atomic_fetch_add(&shared->drained, piece.length);
    atomic_fetch_add(&agent->control->drained_bytes, piece.length);
    if (!agent_lost(agent))
        agent->busy_bytes += piece.length;
    advance(agent, number, piece.records);
    return true;
}
