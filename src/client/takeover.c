/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * takeover.c -- waiting for the agent, and doing its work when it is gone
 *
 * The records, the ring and a copy of each description outlive the agent in its
 * clients, so a client can finish what it began. First it must be certain that no
 * write of the agent is under way or can come later, or old bytes would land over
 * new ones: keeper and worker share one descriptor table, so our connection hangs
 * up exactly when both have left the kernel. An agent that merely does not move is
 * killed before; the worker dies with the keeper (PR_SET_PDEATHSIG).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/writer.h"
#include "common/log.h"

#define PAUSE_MS 50
#define SUSPECT_NS 2000000000ull  /* no sign of life: look at the worker's state */
#define GIVE_UP_NS 30000000000ull /* no sign of life, and not waiting for a disk */

/* The state letter of a process (proc(5) stat), or 0. */
static char process_state(uint32_t pid)
{
    char path[32], text[512], *end;
    long length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    length = syscall(SYS_read, fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    end = strrchr(text, ')'); /* the name before may hold anything */
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static void kill_agent(struct portus_writer *writer, const char *reason)
{
    log_warn("the agent %s: it is killed, this program writes the rest itself", reason);
    syscall(SYS_pidfd_send_signal, writer->link.keeper, SIGKILL, NULL, 0);
}

/* Restarted workers may have lost the message that brought a description: send them again. */
static void engage_again(struct portus_writer *writer)
{
    uint32_t restarts = atomic_load(&writer->link.control->restarts);

    if (restarts == writer->restarts)
        return;
    portus_lock(&writer->lock);
    writer->restarts = restarts;
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (writer->keep[i] >= 0 &&
            atomic_load(&writer->link.control->file[i].state) == PORTUS_FILE_CLAIMED)
            portus_link_send(&writer->link, PORTUS_OP_ENGAGE, i, 0, writer->keep[i]);
    portus_unlock(&writer->lock);
}

void portus_writer_pause(struct portus_writer *writer, uint64_t *since, uint32_t *beat)
{
    struct portus_control *control = writer->link.control;
    uint32_t progress = atomic_load(&control->progress), now_beat = atomic_load(&control->beat);
    uint64_t tail = atomic_load(&writer->session->tail), now = portus_now();

    if (portus_writer_check(writer))
        return;
    if (*since == 0 || now_beat != *beat) {
        *since = now;
        *beat = now_beat;
    } else if (now - *since > SUSPECT_NS) {
        char state = process_state(atomic_load(&control->worker));
        if (state == 'T' || state == 't')
            kill_agent(writer, "is stopped");
        else if (now - *since > GIVE_UP_NS && state != 'D')
            kill_agent(writer, "does not answer");
    }
    engage_again(writer);
    portus_link_ring(&writer->link); /* an idle worker must show a sign of life, too */
    atomic_fetch_add(&control->progress_waiters, 1);
    if (atomic_load(&writer->session->tail) == tail)
        portus_futex_wait(&control->progress, progress, PAUSE_MS);
    atomic_fetch_sub(&control->progress_waiters, 1);
}

static int write_whole(int fd, const uint8_t *data, size_t length, uint64_t offset)
{
    while (length > 0) {
        long written = syscall(SYS_pwrite64, fd, data, length, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : EIO;
        data += written;
        length -= (size_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

/* Replays one record; other threads may still be copying into it. */
static void replay(struct portus_writer *writer, uint64_t sequence)
{
    struct portus_record *record = &writer->record[sequence % PORTUS_RECORDS];
    struct portus_file *file;
    int error;

    while (atomic_load_explicit(&record->stamp, memory_order_acquire) != sequence + 1)
        sched_yield();
    if (record->length == 0 || record->file >= PORTUS_FILES || writer->keep[record->file] < 0)
        return;
    file = &writer->link.control->file[record->file];
    if (atomic_load(&file->error) != 0)
        return;
    error = write_whole(writer->keep[record->file], writer->data + record->data, record->length,
                        record->offset);
    if (error != 0) {
        log_error("%s: %s: its checkpoint is incomplete", file->path, strerror(error));
        atomic_store(&file->error, (uint32_t)error);
    }
}

/* Makes a file an ordinary one: what the agent's lease.c does when it is there. */
static void finish(struct portus_writer *writer, unsigned number)
{
    struct portus_file *file = &writer->link.control->file[number];
    struct statx status;
    int fd = writer->keep[number];
    uint32_t state = atomic_load(&file->state);

    atomic_fetch_or(&file->last, PORTUS_STOPPED);
    if (state == PORTUS_FILE_DONE)
        return;
    if (state != PORTUS_FILE_TRIMMED &&
        syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &status) == 0 &&
        atomic_load(&file->reserved_end) > status.stx_size)
        syscall(SYS_ftruncate, fd, status.stx_size);
    syscall(SYS_fcntl, fd, F_SETLEASE, F_UNLCK);
    atomic_store(&file->state, PORTUS_FILE_DONE);
}

bool portus_writer_check(struct portus_writer *writer)
{
    struct portus_control *control = writer->link.control;
    uint64_t tail;

    if (atomic_load(&writer->gone))
        return true;
    if (!portus_link_dead(&writer->link))
        return false;
    portus_lock(&writer->lock);
    if (atomic_load(&writer->gone))
        goto unlock;
    tail = atomic_load(&writer->session->tail);
    if (writer->head - tail > PORTUS_RECORDS)
        tail = writer->head > PORTUS_RECORDS ? writer->head - PORTUS_RECORDS : 0;
    if (tail != writer->head)
        log_warn("the agent is gone: this program writes the remaining %llu MiB itself",
                 (unsigned long long)((atomic_load(&writer->session->captured) -
                                       atomic_load(&writer->session->drained)) >>
                                      20));
    for (; tail < writer->head; tail++) {
        replay(writer, tail);
        atomic_store(&writer->session->tail, tail + 1);
        portus_futex_advance(&control->progress);
    }
    atomic_store(&writer->session->drained, atomic_load(&writer->session->captured));
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (writer->keep[i] >= 0)
            finish(writer, i);
    atomic_store(&writer->gone, 1);
    portus_futex_advance(&control->finished);
    portus_futex_advance(&control->progress);
unlock:
    portus_unlock(&writer->lock);
    return true;
}
