/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.c -- a client's end of the ring: engages files and appends records
 *
 * A write becomes records of at most a chunk. Each is reserved under the lock
 * (which fixes its place in the order), copied without it, and made ready by its
 * stamp; the drain is at most one record behind.
 */
#include "client/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/descriptor.h"
#include "client/records.h"
#include "common/copy.h"
#include "common/log.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define WARM_STEP (16ul << 20)
#define SETTLE_MS 200
#define LEASE_TRIES 20        /* ms */
#define KEEP_NS 1000000000ull /* a sync waits so long for a commit */

static _Atomic uint32_t writers;

static void clear(struct portus_writer *writer)
{
    uint32_t lost = atomic_load(&writer->lost);

    memset(writer, 0, sizeof(*writer));
    atomic_store(&writer->lost, lost); /* it outlives the agent */
    writer->source = (struct portus_source){-1, -1};
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        writer->keep[i] = -1;
}

int portus_writer_open(struct portus_writer *writer, const struct portus_link_options *options,
                       const char **why)
{
    int error;

    clear(writer);
    error = portus_chunks_open(&writer->chunks);
    if (error != 0) {
        *why = "out of memory";
        return error;
    }
    error = portus_link_open(&writer->link, options, why);
    if (error != 0) {
        portus_chunks_close(&writer->chunks);
        return error;
    }
    portus_source_open(&writer->source);
    writer->session = &writer->link.control->session[writer->link.session];
    writer->opened = atomic_fetch_add(&writers, 1) + 1;
    writer->stored = options->store[0] != '\0';
    writer->serial = atomic_load(&writer->session->serial);
    writer->record = (struct portus_record *)writer->link.ring;
    writer->data = writer->link.ring + PORTUS_RING_DATA;
    return 0;
}

void portus_writer_close(struct portus_writer *writer)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        portus_descriptor_close(&writer->keep[i]);
    portus_source_close(&writer->source);
    portus_link_close(&writer->link);
    portus_chunks_close(&writer->chunks);
    clear(writer);
}

static struct portus_file *file_at(struct portus_writer *writer, unsigned file)
{
    return &writer->link.control->file[file];
}

static int claim_place(struct portus_writer *writer)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        uint32_t nobody = 0;
        if (atomic_load(&file_at(writer, i)->owner) == 0 &&
            atomic_compare_exchange_strong(&file_at(writer, i)->owner, &nobody,
                                           writer->link.session + 1))
            return (int)i;
    }
    return -ENOSPC;
}

static void free_place(struct portus_writer *writer, unsigned number)
{
    struct portus_file *file = file_at(writer, number);

    atomic_store(&file->state, PORTUS_FILE_FREE);
    atomic_store(&file->owner, 0);
}

/*
 * The lease makes other openers wait until the drain is through. Its signals go
 * to the keeper: a lease without an owner would end the program by SIGIO.
 */
static int take_lease(const struct portus_writer *writer, int fd)
{
    int keeper = (int)atomic_load(&writer->link.control->keeper);

    if (syscall(SYS_fcntl, fd, F_SETSIG, SIGRTMIN) < 0 ||
        syscall(SYS_fcntl, fd, F_SETOWN, keeper) < 0)
        return -errno;
    if (keeper <= 0 || syscall(SYS_fcntl, fd, F_GETOWN, 0) != keeper)
        return -ESRCH;
    /* A store that was reading the version before has let go; the kernel may not have yet. */
    for (unsigned tries = 0; syscall(SYS_fcntl, fd, F_SETLEASE, F_WRLCK) < 0; tries++) {
        if (errno != EAGAIN || tries == (writer->stored ? LEASE_TRIES : 0))
            return -errno;
        poll(NULL, 0, 1);
    }
    return 0;
}

static void drop_lease(int fd)
{
    syscall(SYS_fcntl, fd, F_SETLEASE, F_UNLCK);
    syscall(SYS_fcntl, fd, F_SETOWN, 0);
    syscall(SYS_fcntl, fd, F_SETSIG, 0);
}

bool portus_writer_settle(struct portus_writer *writer, uint64_t device, uint64_t inode)
{
    bool ours = false;

    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *file = file_at(writer, i);
        if (writer->keep[i] < 0 || file->inode != inode || file->device != device)
            continue;
        ours = true;
        for (unsigned tries = 0; tries < SETTLE_MS; tries++) {
            if (atomic_load(&file->state) == PORTUS_FILE_DONE || portus_link_dead(&writer->link))
                break;
            poll(NULL, 0, 1);
        }
    }
    if (ours)
        portus_writer_reap(writer);
    return ours;
}

static void set_path(struct portus_file *file, const char *path)
{
    size_t length = strlen(path);

    if (length >= PORTUS_FILE_PATH) {
        path += length - (PORTUS_FILE_PATH - 1);
        length = PORTUS_FILE_PATH - 1;
    }
    memcpy(file->path, path, length);
    file->path[length] = '\0';
}

int portus_writer_engage(struct portus_writer *writer, const struct portus_claim *claim)
{
    struct portus_file *file;
    uint64_t silent = atomic_load(&writer->session->silent);
    int number, keep, error;

    if (atomic_load(&writer->gone))
        return -ESHUTDOWN;
    if (silent != 0 && silent != claim->device)
        return -EHOSTDOWN;
    if (atomic_load(&writer->link.control->passive) != PORTUS_CAPTURING)
        return -ESHUTDOWN;
    number = claim_place(writer);
    if (number < 0)
        return number;
    file = file_at(writer, (unsigned)number);
    if (!claim->leaseless) {
        error = take_lease(writer, claim->fd);
        if (error == -EAGAIN && portus_writer_settle(writer, claim->device, claim->inode))
            error = take_lease(writer, claim->fd);
        if (error != 0)
            goto drop;
    }
    /* Not before: closing a copy drops the POSIX locks that other descriptors hold. */
    keep = portus_descriptor_copy(claim->fd);
    if (keep < 0) {
        error = keep;
        goto drop;
    }
    atomic_store(&file->last, writer->head << 1);
    atomic_store(&file->size, claim->size);
    atomic_store(&file->reserved_end, 0);
    atomic_store(&file->captured, 0);
    atomic_store(&file->drained, 0);
    atomic_store(&file->closed, 0);
    atomic_store(&file->quiet, 1);
    atomic_store(&file->aside, 0);
    atomic_store(&file->sealing, 0);
    atomic_store(&file->written, 0);
    atomic_store(&file->kept, 0);
    atomic_store(&file->error, 0);
    atomic_store(&file->leaseless, claim->leaseless);
    atomic_store(&file->hurried, claim->hurried);
    atomic_store(&file->replaces, claim->replaces);
    file->device = claim->device;
    file->inode = claim->inode;
    memcpy(file->directory, claim->directory, sizeof(file->directory));
    file->since_ns = portus_now();
    set_path(file, claim->path);
    atomic_fetch_add(&writer->link.control->live, 1);
    atomic_store(&file->state, PORTUS_FILE_CLAIMED);
    error = portus_link_send(&writer->link, PORTUS_OP_ENGAGE, (uint32_t)number, claim->inode,
                             claim->fd);
    if (error != 0)
        goto lease;
    portus_lock(&writer->lock);
    if (atomic_load(&writer->gone)) {
        /* Another thread has just taken over what it knew of, which was not this. */
        portus_unlock(&writer->lock);
        error = -ESHUTDOWN;
        goto lease;
    }
    writer->keep[number] = keep;
    writer->used[number] = true;
    portus_unlock(&writer->lock);
    portus_link_wake(&writer->link);
    return number;

lease:
    atomic_fetch_sub(&writer->link.control->live, 1);
    portus_descriptor_close(&keep);
drop:
    if (!claim->leaseless)
        drop_lease(claim->fd); /* its owner and signal also where there is none */
    free_place(writer, (unsigned)number);
    return error;
}

/* Nothing waits for the drain: what has no room then waits for who holds it. */
static bool drained_all(const struct portus_writer *writer)
{
    return atomic_load(&writer->session->head) >> 1 == atomic_load(&writer->session->tail);
}

size_t portus_writer_append(struct portus_writer *writer, unsigned number, const void *data,
                            size_t length, uint64_t offset, uint64_t *waited)
{
    const uint8_t *source = data;
    size_t done = 0;
    struct portus_patience patience = {0};
    uint64_t began = 0;

    while (done < length) {
        size_t ask = length - done < PORTUS_CHUNK ? length - done : PORTUS_CHUNK;
        uint64_t sequence, position;
        uint32_t taken = 0;
        int admitted;

        if (!portus_source_readable(&writer->source, source + done, ask))
            break;
        portus_lock(&writer->lock);
        admitted = portus_records_admit(writer);
        if (admitted > 0) {
            taken = portus_records_take(writer, offset + done, ask, &position);
            admitted =
                taken == 0 ? 0 : portus_records_reserve(writer, number, position, taken, &sequence);
        }
        portus_unlock(&writer->lock);
        if (admitted < 0)
            break;
        if (admitted == 0) {
            if (began == 0)
                began = portus_now();
            if (writer->relieve != NULL && writer->chunks.held != 0 && drained_all(writer))
                writer->relieve(writer);
            portus_writer_pause(writer, &patience);
            continue;
        }
        patience.since = 0;
        portus_copy(writer->data + position, source + done, taken);
        portus_records_publish(
            writer, sequence,
            &(struct portus_record){
                .offset = offset + done, .data = position, .length = taken, .file = number});
        done += taken;
        atomic_fetch_add(&file_at(writer, number)->captured, taken);
    }
    if (began != 0)
        *waited += portus_now() - began;
    return done;
}

/* Whether all records of the file are replayed. */
static bool drained(struct portus_writer *writer, struct portus_file *file)
{
    return atomic_load(&file->last) >> 1 <= atomic_load(&writer->session->tail);
}

/* The file's error or 0. The first who sees it says it; the agent has nobody to say it to. */
static uint32_t seen_error(struct portus_file *file)
{
    uint32_t error = atomic_load(&file->error);

    if (error == 0)
        return 0;
    error = atomic_fetch_or(&file->error, PORTUS_ERROR_REPORTED);
    if (!(error & PORTUS_ERROR_REPORTED))
        log_error("%.*s: %s: the file is incomplete", PORTUS_FILE_PATH - 1, file->path,
                  strerror((int)error));
    return error;
}

static int sticky_error(struct portus_file *file)
{
    return -(int)(seen_error(file) & ~PORTUS_ERROR_REPORTED);
}

int portus_writer_drain(struct portus_writer *writer, unsigned number)
{
    struct portus_file *file = file_at(writer, number);
    struct portus_patience patience = {0};

    while (!drained(writer, file) && !atomic_load(&writer->gone))
        portus_writer_pause(writer, &patience);
    return sticky_error(file);
}

/* Drained means in the page cache, which takes less time than a commit; a sync takes far more. */
bool portus_writer_keep(struct portus_writer *writer, unsigned number)
{
    struct portus_file *file = file_at(writer, number);
    struct portus_patience patience = {0};
    uint64_t last = atomic_load(&file->last) >> 1, since = 0;

    atomic_store(&file->sealing, 1);
    portus_link_wake(&writer->link);
    while (atomic_load(&file->kept) < last && !atomic_load(&writer->gone) &&
           atomic_load(&writer->link.control->store) != 0) {
        if (drained(writer, file)) {
            if (atomic_load(&file->sealing) == 0)
                break;
            since = since == 0 ? portus_now() : since;
            if (portus_now() - since > KEEP_NS)
                break;
        }
        portus_writer_pause(writer, &patience);
    }
    return !atomic_load(&writer->gone) && atomic_load(&file->kept) >= last;
}

static void stop(struct portus_writer *writer, unsigned number)
{
    atomic_fetch_or(&file_at(writer, number)->last, PORTUS_STOPPED);
    portus_link_wake(&writer->link);
}

static void let_go(struct portus_writer *writer, unsigned number)
{
    portus_lock(&writer->lock);
    writer->used[number] = false;
    portus_unlock(&writer->lock);
}

int portus_writer_leave(struct portus_writer *writer, unsigned number)
{
    int error = sticky_error(file_at(writer, number));

    atomic_store(&file_at(writer, number)->quiet, 1);
    stop(writer, number);
    let_go(writer, number);
    /* Done already: whoever looked meanwhile found it in use, and may not look again. */
    if (atomic_load(&file_at(writer, number)->state) == PORTUS_FILE_DONE)
        portus_writer_reap(writer);
    return error;
}

int portus_writer_release(struct portus_writer *writer, unsigned number)
{
    struct portus_file *file = file_at(writer, number);
    struct portus_patience patience = {0};
    int error;

    atomic_store(&file->quiet, 1);
    stop(writer, number);
    while (atomic_load(&file->state) != PORTUS_FILE_DONE && !atomic_load(&writer->gone))
        portus_writer_pause(writer, &patience);
    error = sticky_error(file);
    let_go(writer, number);
    return error;
}

unsigned portus_writer_reap(struct portus_writer *writer)
{
    unsigned live = 0;

    portus_lock(&writer->lock);
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        if (writer->keep[i] < 0)
            continue;
        if (atomic_load(&file_at(writer, i)->state) != PORTUS_FILE_DONE) {
            live++;
        } else if (!writer->used[i]) {
            uint32_t error = seen_error(file_at(writer, i));
            if (error != 0 && !(error & PORTUS_ERROR_REPORTED))
                portus_writer_untold(writer, -(int)error);
            portus_descriptor_close(&writer->keep[i]);
            if (!atomic_load(&writer->gone))
                free_place(writer, i);
        }
    }
    portus_unlock(&writer->lock);
    return live;
}

void portus_writer_clear(struct portus_writer *writer)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *file = file_at(writer, i);
        for (unsigned tries = 0; tries < SETTLE_MS && writer->keep[i] >= 0 && !writer->used[i] &&
                                 drained(writer, file) && !portus_link_dead(&writer->link) &&
                                 atomic_load(&file->state) != PORTUS_FILE_DONE;
             tries++)
            poll(NULL, 0, 1);
    }
    portus_writer_reap(writer);
}

int portus_writer_error(struct portus_writer *writer)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        if (writer->keep[i] < 0)
            continue;
        uint32_t error = seen_error(file_at(writer, i));
        if (error != 0 && !(error & PORTUS_ERROR_REPORTED))
            return -(int)error;
    }
    return -(int)atomic_exchange(&writer->lost, 0);
}

void portus_writer_untold(struct portus_writer *writer, int error)
{
    atomic_store(&writer->lost, (uint32_t)-error);
}

void portus_writer_told(struct portus_writer *writer, int error)
{
    uint32_t lost = (uint32_t)-error;

    atomic_compare_exchange_strong(&writer->lost, &lost, 0);
}

bool portus_writer_busy(const struct portus_writer *writer)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        if (writer->used[i])
            return true;
    return false;
}

bool portus_writer_warm(struct portus_writer *writer)
{
    uint64_t ring = atomic_load(&writer->session->ring_bytes), done = atomic_load(&writer->warmed);

    if (done > ring)
        atomic_store(&writer->warmed, done = ring);
    if (done < ring) {
        uint64_t step = ring - done < WARM_STEP ? ring - done : WARM_STEP;
        /* Where it is not supported, the first copy maps the pages. */
        madvise(writer->data + done, step, MADV_POPULATE_WRITE);
        atomic_store(&writer->warmed, done + step);
        return false;
    }
    return ring >= atomic_load(&writer->session->ring_goal);
}
