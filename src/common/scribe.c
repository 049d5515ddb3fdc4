/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scribe.c -- writes what a process says of itself, so that a file that hangs holds nobody up
 *
 * PORTUS_LOG, PORTUS_TRACE and PORTUS_METRICS may well be on the file system that hangs, as they
 * are beside the checkpoints; who stands in write(2) there serves nobody. So a thread writes,
 * one for each of them, which begins with the first piece. As long as files answer, a line is
 * written when the call that says it returns, as without it: what it was said for may be the
 * process's end.
 */
#include "common/scribe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/trace.h"

#define WAIT_NS 100000000ull
#define END_NS 500000000ull

static void *work(void *argument)
{
    struct portus_scribe *scribe = argument;
    const char *pieces;
    size_t length, used;
    uint32_t seen;

    for (;;) {
        portus_lock(&scribe->lock);
        seen = atomic_load(&scribe->put);
        pieces = scribe->queue[scribe->turn];
        used = scribe->used;
        if (used > 0)
            scribe->turn ^= 1;
        else
            scribe->late = false;
        scribe->used = scribe->pieces = 0;
        portus_unlock(&scribe->lock);
        for (size_t at = 0; at < used; at += sizeof(length) + length) {
            memcpy(&length, pieces + at, sizeof(length));
            scribe->write(pieces + at + sizeof(length), length);
            portus_futex_advance(&scribe->written);
        }
        if (used == 0)
            portus_futex_wait(&scribe->put, seen, 60000);
    }
    return NULL;
}

static bool is_written(const struct portus_scribe *scribe, uint32_t piece)
{
    return (int32_t)(atomic_load(&scribe->written) - piece) >= 0;
}

/* Whether that piece is written before the time is over. */
static bool wait_for(struct portus_scribe *scribe, uint32_t piece, uint64_t until)
{
    uint32_t written;
    uint64_t now;

    for (;;) {
        written = atomic_load(&scribe->written);
        if (is_written(scribe, piece))
            return true;
        now = portus_now();
        if (now >= until)
            return false;
        portus_futex_wait(&scribe->written, written, 1 + (unsigned)((until - now) / 1000000));
    }
}

/* With its lock. */
static void begin(struct portus_scribe *scribe)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work, scribe) != 0) {
        scribe->state = PORTUS_SCRIBE_REFUSED;
        return;
    }
    pthread_detach(thread);
    scribe->state = PORTUS_SCRIBE_THREAD;
}

static bool add(struct portus_scribe *scribe, const char *bytes, size_t length, bool wait)
{
    char *end;
    uint32_t piece;

    portus_lock(&scribe->lock);
    if (scribe->state == PORTUS_SCRIBE_NEW)
        begin(scribe);
    if (scribe->state == PORTUS_SCRIBE_REFUSED) {
        portus_unlock(&scribe->lock);
        scribe->write(bytes, length);
        return true;
    }
    if (!wait) {
        scribe->used = 0;
        atomic_fetch_add(&scribe->written, scribe->pieces);
        scribe->pieces = 0;
    }
    if (length > PORTUS_SCRIBE_BYTES - sizeof(length) ||
        scribe->used > PORTUS_SCRIBE_BYTES - sizeof(length) - length) {
        portus_unlock(&scribe->lock);
        return false;
    }
    end = scribe->queue[scribe->turn] + scribe->used;
    memcpy(end, &length, sizeof(length));
    memcpy(end + sizeof(length), bytes, length);
    scribe->used += sizeof(length) + length;
    scribe->pieces++;
    piece = atomic_fetch_add(&scribe->put, 1) + 1;
    wait = wait && !scribe->late;
    portus_unlock(&scribe->lock);
    portus_futex_wake(&scribe->put);
    if (wait && !wait_for(scribe, piece, portus_now() + WAIT_NS)) {
        portus_lock(&scribe->lock);
        scribe->late = !is_written(scribe, piece);
        portus_unlock(&scribe->lock);
    }
    return true;
}

bool portus_scribe_put(struct portus_scribe *scribe, const char *bytes, size_t length)
{
    return add(scribe, bytes, length, true);
}

bool portus_scribe_leave(struct portus_scribe *scribe, const char *bytes, size_t length)
{
    return add(scribe, bytes, length, false);
}

void portus_scribe_flush(struct portus_scribe *scribe, unsigned ms)
{
    wait_for(scribe, atomic_load(&scribe->put), portus_now() + ms * 1000000ull);
}

static struct portus_scribe log_scribe = {.write = portus_log_write};
static struct portus_scribe trace_scribe = {.write = portus_trace_write};

static void log_line(const char *line, size_t length)
{
    static _Atomic unsigned lost;
    unsigned before;

    if (!portus_scribe_put(&log_scribe, line, length)) {
        atomic_fetch_add(&lost, 1);
        return;
    }
    before = atomic_exchange(&lost, 0);
    if (before > 0)
        log_warn("%u lines were left out: their file did not answer", before);
}

static void trace_line(const char *line, size_t length)
{
    portus_scribe_put(&trace_scribe, line, length);
}

/* In a child there is no thread but the one that forked. */
static void forget(void)
{
    portus_log_by(NULL);
    portus_trace_by(NULL);
    atomic_store(&log_scribe.written, atomic_load(&log_scribe.put));
    atomic_store(&trace_scribe.written, atomic_load(&trace_scribe.put));
}

void portus_scribes_begin(void)
{
    if (pthread_atfork(NULL, NULL, forget) != 0 || atexit(portus_scribes_end) != 0)
        return;
    portus_log_by(log_line);
    portus_trace_by(trace_line);
}

void portus_scribes_end(void)
{
    uint64_t until = portus_now() + END_NS;

    wait_for(&log_scribe, atomic_load(&log_scribe.put), until);
    wait_for(&trace_scribe, atomic_load(&trace_scribe.put), until);
}

bool portus_scribes_behind(void)
{
    bool late;

    portus_lock(&log_scribe.lock);
    late = log_scribe.late;
    portus_unlock(&log_scribe.lock);
    return late;
}
