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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/writer.h"
#include "common/log.h"

#define PAUSE_MS 50
#define LEAVING_MS 200

void portus_writer_pause(struct portus_writer *writer, struct portus_patience *patience)
{
    struct portus_control *control = writer->link.control;
    uint32_t progress = atomic_load(&control->progress);
    uint64_t tail = atomic_load(&writer->session->tail);

    if (portus_writer_check(writer))
        return;
    portus_link_prod(&writer->link, patience);
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

/* A program can close any descriptor, also ours, and open another under its number. */
static bool is_ours(const struct portus_file *file, int fd)
{
    struct statx status;

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &status) < 0)
        return errno != EBADF; /* it is one, and cannot say which */
    return status.stx_ino == file->inode &&
           makedev(status.stx_dev_major, status.stx_dev_minor) == file->device;
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
    if (!is_ours(file, writer->keep[record->file])) {
        log_error("%s: our descriptor of it was closed", file->path);
        atomic_store(&file->error, EBADF);
        return;
    }
    error = write_whole(writer->keep[record->file], writer->data + record->data, record->length,
                        record->offset);
    if (error != 0)
        atomic_store(&file->error, (uint32_t)error);
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
    if (!is_ours(file, fd)) {
        atomic_store(&file->state, PORTUS_FILE_DONE);
        return;
    }
    if (state != PORTUS_FILE_TRIMMED && atomic_load(&file->quiet) != 0 &&
        syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &status) == 0 &&
        atomic_load(&file->reserved_end) > status.stx_size)
        syscall(SYS_ftruncate, fd, status.stx_size);
    syscall(SYS_fcntl, fd, F_SETLEASE, F_UNLCK);
    if (atomic_load(&file->replaces) != 0)
        syscall(SYS_sync_file_range, fd, 0l, 0l, SYNC_FILE_RANGE_WRITE);
    atomic_store(&file->state, PORTUS_FILE_DONE);
}

/*
 * Our connection is gone. Keeper and worker close it by leaving the kernel; were it
 * ever closed by anything else, both must be gone, too, before we write.
 */
static void be_sure(struct portus_writer *writer)
{
    struct pollfd keeper = {.fd = writer->link.keeper, .events = POLLIN};
    uint32_t worker = atomic_load(&writer->link.control->worker);
    char state;

    if (poll(&keeper, 1, LEAVING_MS) > 0)
        return;
    log_warn("the agent hung up and lives: it is killed, its clients write the rest themselves");
    do
        syscall(SYS_pidfd_send_signal, writer->link.keeper, SIGKILL, NULL, 0);
    while (poll(&keeper, 1, LEAVING_MS) == 0);
    while ((state = portus_process_state(worker)) != 0 && state != 'Z' && state != 'X')
        poll(NULL, 0, 1);
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
    if (atomic_load(&writer->session->serial) != writer->serial ||
        atomic_load(&writer->session->state) == PORTUS_SESSION_FREE)
        goto gone; /* the agent has ended our session, which it does when all is drained */
    be_sure(writer);
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
gone:
    atomic_store(&writer->gone, 1);
    portus_futex_advance(&control->finished);
    portus_futex_advance(&control->progress);
unlock:
    portus_unlock(&writer->lock);
    return true;
}
