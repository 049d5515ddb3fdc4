/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.c -- a file that the program writes and that is, or may become, captured
 *
 * The table of files, and all that happens to one but its writes (capture.c): what
 * lags behind in the kernel is size and contents, so each call that would see them is
 * answered or waits.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/log.h"
#include "common/trace.h"
#include "file_private.h"
#include "habit.h"
#include "policy.h"
#include "real.h"
#include "shim.h"
#include "summary.h"

_Atomic uint16_t fdtab[FDTAB_SIZE];
_Atomic uint8_t fdtab_streams[FDTAB_SIZE];

static const char not_alone;
const char *file_single_threaded = &not_alone;

struct file files[FILES];
static struct portus_lock table; /* of allocation */
static _Atomic unsigned most;    /* no file was ever at or above it */

static int identity(int fd, struct statx *status)
{
    return (int)syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, status);
}

static uint64_t device_of(const struct statx *status)
{
    return makedev(status->stx_dev_major, status->stx_dev_minor);
}

/* By its name: a libc that has it not yet must not refuse to load us. */
static void find_single_threaded(void)
{
    static _Atomic bool looked;
    const char *found;

    if (atomic_exchange(&looked, true))
        return;
    found = real_find("__libc_single_threaded");
    if (found != NULL)
        file_single_threaded = found;
}

void file_candidate(int fd, bool created, bool emptied)
{
    struct guard guard;

    if ((unsigned)fd >= FDTAB_SIZE || !shim_own() || atomic_load(&shim.ending))
        return;
    find_single_threaded();
    guard = shim_guard();
    file_replace(fd); /* a descriptor that was closed behind our back */
    portus_lock(&table);
    for (unsigned i = 0; i < FILES; i++) {
        struct file *file = &files[i];
        if (atomic_load(&file->state) != FILE_FREE)
            continue;
        /* The lock is kept as it is: somebody may just be leaving it. */
        file->head_length = 0;
        atomic_store(&file->first, fd);
        atomic_store(&file->named, 0);
        file->created = created;
        file->emptied = emptied;
        file->captured = false;
        file->sampled = file->counted = file->exact = false;
        file->synced = file->filled = file->untold = false;
        file->error = 0;
        file->sized = 0;
        file->opened = portus_trace_on() ? portus_now() : 0;
        file->save = 0;
        atomic_store(&file->streamed, fdtab_stream(fd));
        file->reserved_from = file->reserved_to = 0;
        atomic_store(&file->fds, 1);
        if (i >= atomic_load(&most))
            atomic_store(&most, i + 1);
        atomic_store(&file->state, FILE_CANDIDATE);
        atomic_store(&fdtab[fd], (uint16_t)(i + 1));
        break;
    }
    portus_unlock(&table);
    shim_unguard(&guard);
}

void file_duplicate(int fd, int other)
{
    struct file *file = fdtab_file(fd);
    struct guard guard;

    if (file == NULL || (unsigned)other >= FDTAB_SIZE)
        return;
    guard = shim_guard();
    portus_lock(&table);
    if (fdtab_file(fd) == file) {
        atomic_fetch_add(&file->fds, 1);
        atomic_store(&fdtab[other], atomic_load(&fdtab[fd]));
    }
    portus_unlock(&table);
    shim_unguard(&guard);
    if (fdtab_stream(other))
        file_streamed(file, other);
}

int file_release_locked(struct file *file)
{
    int error;

    if (atomic_load(&file->state) != FILE_ENGAGED)
        return 0;
    shim_keep();
    error = portus_writer_release(&shim.writer, file->number);
    file->error = -error;
    atomic_store(&file->state, FILE_PLAIN);
    portus_writer_reap(&shim.writer);
    shim_done();
    return error;
}

void file_release_untold(struct file *file)
{
    int error = file_release_locked(file);

    if (error == 0)
        return;
    file->untold = true;
    portus_writer_untold(&shim.writer, error);
}

int file_error(struct file *file, bool news)
{
    if (atomic_load(&file->state) != FILE_PLAIN || file->error == 0 || !shim_own() ||
        (news && !file->untold))
        return 0;
    if (file->untold)
        portus_writer_told(&shim.writer, -file->error);
    file->untold = false;
    return file->error;
}

void files_release_inode(uint64_t device, uint64_t inode)
{
    for (unsigned i = 0; i < FILES; i++) {
        if (atomic_load(&files[i].state) != FILE_ENGAGED)
            continue;
        portus_lock(&files[i].lock);
        if (files[i].inode == inode && files[i].device == device)
            file_release_untold(&files[i]);
        portus_unlock(&files[i].lock);
    }
}

static bool is(const struct file *file, int fd)
{
    struct statx status;

    if (identity(fd, &status) < 0)
        return errno != EBADF; /* it is one, and cannot say which */
    return status.stx_ino == file->inode && device_of(&status) == file->device;
}

bool file_same(struct file *file, int fd)
{
    if (is(file, fd))
        return true;
    log_debug("descriptor %d is another file now", fd);
    atomic_store(&fdtab[fd], 0);
    if (atomic_fetch_sub(&file->fds, 1) == 1) {
        file_release_untold(file);
        atomic_store(&file->state, FILE_FREE);
    }
    return false;
}

/*
 * Takes the lock if fd still belongs to the file, which must be engaged; a candidate that
 * must not become it is plain from then on.
 */
static bool enter_as(struct file *file, int fd, struct guard *guard, bool candidate)
{
    uint32_t state = atomic_load(&file->state);

    if ((state != FILE_ENGAGED && !(candidate && state == FILE_CANDIDATE)) || !shim_own())
        return false;
    *guard = shim_guard();
    portus_lock(&file->lock);
    if (fdtab_file(fd) == file) {
        state = atomic_load(&file->state);
        if (state == FILE_ENGAGED && file_same(file, fd))
            return true;
        if (state == FILE_CANDIDATE && candidate)
            atomic_store(&file->state, FILE_PLAIN);
    }
    portus_unlock(&file->lock);
    shim_unguard(guard);
    return false;
}

static bool enter(struct file *file, int fd, struct guard *guard)
{
    return enter_as(file, fd, guard, false);
}

static void leave(struct file *file, const struct guard *guard)
{
    portus_unlock(&file->lock);
    shim_unguard(guard);
}

/* For the timeline: a save ends with its file's last descriptor. */
static void end_save(struct file *file, int fd)
{
    struct statx status;

    if (file->save == 0)
        return;
    if (identity(fd, &status) < 0)
        status.stx_size = 0;
    if (atomic_load(&file->state) == FILE_ENGAGED &&
        atomic_load(&file_shared(file)->size) > status.stx_size)
        status.stx_size = atomic_load(&file_shared(file)->size);
    portus_trace(&(struct portus_event){PORTUS_TRACE_END, "save", "save", .id = file->save},
                 "\"size\":%llu", (unsigned long long)status.stx_size);
    file->save = 0;
}

static int drain(struct file *file, int fd, bool aside)
{
    struct guard guard;
    int error;

    if (!enter(file, fd, &guard))
        return 0;
    if (aside)
        atomic_store(&file_shared(file)->aside, 1);
    error = portus_writer_drain(&shim.writer, file->number);
    leave(file, &guard);
    return -error;
}

int file_drain(struct file *file, int fd)
{
    return drain(file, fd, false);
}

bool file_kept(struct file *file, int fd)
{
    struct portus_file *entry;
    struct guard guard;
    bool kept;

    if (shim.env.order != PORTUS_ORDER_RELAXED || shim.env.store[0] == '\0' ||
        !enter(file, fd, &guard))
        return false;
    entry = file_shared(file);
    kept = (atomic_load(&shim.writer.link.control->store) & PORTUS_WELCOME_DURABLE) != 0 &&
           portus_writer_keep(&shim.writer, file->number) && atomic_load(&entry->error) == 0;
    leave(file, &guard);
    return kept;
}

int file_drain_aside(struct file *file, int fd)
{
    return drain(file, fd, true);
}

int file_before_unlogged(struct file *file, int fd)
{
    if (atomic_load(&file->state) == FILE_CANDIDATE && shim_live())
        return -shim_barrier_at("unlogged change", fd, "");
    return file_drain_aside(file, fd);
}

int files_before_unlogged(void)
{
    bool any = false;

    for (unsigned i = 0; i < FILES && !any && shim_live(); i++)
        any = atomic_load(&files[i].state) == FILE_CANDIDATE;
    return any ? -shim_barrier_of("unlogged change") : 0;
}

int file_release(struct file *file, int fd)
{
    struct guard guard;
    int error = 0;

    if (atomic_load(&file->state) == FILE_CANDIDATE && shim_own())
        error = file_before_unlogged(file, fd);
    if (!enter_as(file, fd, &guard, true))
        return error;
    error = -file_release_locked(file);
    leave(file, &guard);
    return error;
}

void file_of_stream(struct file *file)
{
    if (atomic_load(&file->state) == FILE_ENGAGED && shim_own())
        atomic_store(&file_shared(file)->quiet, 0);
}

int file_streamed(struct file *file, int fd)
{
    if (!shim_own())
        return 0;
    atomic_store(&file->streamed, true);
    return file_before_stream(file, fd);
}

int file_before_stream(struct file *file, int fd)
{
    off_t size;

    if (atomic_load(&file->state) != FILE_ENGAGED || !atomic_load(&file->streamed) ||
        !file_size(file, fd, &size) || syscall(SYS_lseek, fd, 0, SEEK_CUR) >= size)
        return 0;
    return file_drain_aside(file, fd);
}

int file_reserved_by_program(struct file *file, int fd)
{
    struct guard guard;
    struct statx status;
    int error;

    file->exact = true;
    if (!enter(file, fd, &guard))
        return 0;
    atomic_store(&file_shared(file)->aside, 1);
    error = portus_writer_drain(&shim.writer, file->number);
    if (error == 0 && identity(fd, &status) == 0 &&
        atomic_load(&file_shared(file)->reserved_end) > status.stx_size)
        real_ftruncate(fd, (off_t)status.stx_size);
    atomic_store(&file_shared(file)->reserved_end, 0);
    file->reserved_from = file->reserved_to = 0;
    leave(file, &guard);
    return -error;
}

void file_grown_locked(struct file *file, int fd)
{
    _Atomic uint64_t *size = &file_shared(file)->size;
    struct statx status;

    if (identity(fd, &status) == 0 && atomic_load(size) < status.stx_size)
        atomic_store(size, status.stx_size);
}

bool file_size(struct file *file, int fd, off_t *size)
{
    struct guard guard;
    bool live;

    if (!enter(file, fd, &guard))
        return false;
    file_grown_locked(file, fd); /* by stdio, unseen */
    *size = (off_t)atomic_load(&file_shared(file)->size);
    live = atomic_load(&file_shared(file)->state) < PORTUS_FILE_TRIMMED;
    leave(file, &guard);
    return live;
}

void file_resized(struct file *file, int fd)
{
    struct guard guard;
    struct statx status;

    if (atomic_load(&file->state) == FILE_CANDIDATE && file->head_length == 0 && shim_own() &&
        identity(fd, &status) == 0)
        file->sized = status.stx_size;
    if (!enter(file, fd, &guard))
        return;
    /* What another thread has written meanwhile counts as well. */
    if (portus_writer_drain(&shim.writer, file->number) == 0 && identity(fd, &status) == 0) {
        atomic_store(&file_shared(file)->size, status.stx_size);
        if (file->sized != 0)
            file->sized = status.stx_size;
    } else {
        file_release_untold(file); /* from now on the kernel says it */
    }
    file->reserved_from = file->reserved_to = 0; /* what lay beyond may be gone */
    leave(file, &guard);
}

/* The program's last descriptor of the file is about to go. */
static int close_last(struct file *file, int fd)
{
    int how = shim.env.close, error = 0;
    struct portus_file *entry;

    portus_lock(&file->lock);
    if (atomic_load(&file->state) != FILE_ENGAGED) {
        error = -file_error(file, false);
        if (error == 0 && how == PORTUS_CLOSE_DURABLE && file->captured && real_fsync(fd) < 0)
            error = -errno;
        end_save(file, fd);
        goto free;
    }
    entry = file_shared(file);
    atomic_store(&entry->closed, 1);
    habit_closed(file->synced);
    if (how == PORTUS_CLOSE_CAPTURED && atomic_load(&entry->leaseless) && shim.env.shared == 1)
        how = PORTUS_CLOSE_DRAINED;
    if (!is(file, fd)) /* it was closed long ago, behind our back */
        how = PORTUS_CLOSE_CAPTURED;
    if (how == PORTUS_CLOSE_CAPTURED) {
        atomic_store(&entry->closed, PORTUS_CLOSED_EARLY);
        end_save(file, fd); /* before its number is another file's */
        shim_keep();
        error = portus_writer_leave(&shim.writer, file->number);
        shim_done();
    } else {
        error = file_release_locked(file);
        if (error == 0 && how == PORTUS_CLOSE_DURABLE && real_fsync(fd) < 0)
            error = -errno;
        end_save(file, fd);
    }
free:
    atomic_store(&file->state, FILE_FREE);
    portus_unlock(&file->lock);
    return -error;
}

void file_before_lock(int fd)
{
    struct statx status;
    struct guard guard;

    if (!atomic_load(&shim.connected) || !shim_own())
        return;
    guard = shim_guard();
    if (identity(fd, &status) == 0 && shim_use()) {
        habit_locked(status.stx_ino);
        /* Another descriptor's, which the agent may have done with already, has a copy, too. */
        files_release_inode(device_of(&status), status.stx_ino);
        portus_writer_settle(&shim.writer, device_of(&status), status.stx_ino);
        shim_done();
    }
    shim_unguard(&guard);
}

int file_close(int fd)
{
    struct file *file = fdtab_file(fd);
    struct guard guard;
    int error = 0;

    if (file == NULL || !shim_own())
        return 0;
    guard = shim_guard();
    portus_lock(&table);
    if (fdtab_file(fd) != file) {
        portus_unlock(&table);
        shim_unguard(&guard);
        return 0;
    }
    /* The number goes first: from now on no other thread finds the file by it. */
    atomic_store(&fdtab[fd], 0);
    bool last = atomic_fetch_sub(&file->fds, 1) == 1;
    portus_unlock(&table);
    if (last)
        error = close_last(file, fd);
    shim_unguard(&guard);
    return error;
}

void file_replace(int fd)
{
    int error = file_close(fd);

    if (error != 0 && shim_use()) {
        portus_writer_untold(&shim.writer, -error);
        shim_done();
    }
}

bool files_saving(void)
{
    for (unsigned i = 0; i < atomic_load(&most); i++) {
        struct file *file = &files[i];
        uint32_t state = atomic_load(&file->state);
        int fd = atomic_load(&file->first);

        if (state == FILE_ENGAGED)
            return true;
        if (state != FILE_CANDIDATE)
            continue;
        if (atomic_load(&file->named) == 0 && fdtab_file(fd) == file)
            atomic_store(&file->named, policy_named(file, fd) ? 1 : 2);
        if (atomic_load(&file->named) == 1)
            return true;
    }
    return false;
}

void files_release(bool closed_too)
{
    struct portus_patience patience = {0};
    uint64_t began = portus_now();

    for (;;) {
        for (unsigned i = 0; i < FILES; i++) {
            if (atomic_load(&files[i].state) != FILE_ENGAGED)
                continue;
            portus_lock(&files[i].lock);
            file_release_untold(&files[i]);
            portus_unlock(&files[i].lock);
        }
        if (!closed_too)
            return;
        /* Another thread may engage one meanwhile: so all are looked at again. */
        if (portus_writer_reap(&shim.writer) == 0 || atomic_load(&shim.writer.gone))
            break;
        portus_writer_pause(&shim.writer, &patience);
    }
    summary_waited(portus_now() - began);
    shim_trace_wait(closed_too ? "end" : "release", portus_trace_on() ? began : 0);
}

void files_share(void)
{
    for (unsigned i = 0; i < FILES; i++) {
        struct file *file = &files[i];
        struct guard guard;

        if (atomic_load(&file->state) != FILE_CANDIDATE)
            continue;
        guard = shim_guard();
        portus_lock(&file->lock);
        file_release_locked(file); /* another thread may just have engaged it */
        if (atomic_load(&file->state) == FILE_CANDIDATE)
            atomic_store(&file->state, FILE_PLAIN);
        portus_unlock(&file->lock);
        shim_unguard(&guard);
    }
}

void files_lock(void)
{
    portus_lock(&table);
}

void files_unlock(void)
{
    portus_unlock(&table);
}

void files_forget(void)
{
    for (unsigned i = 0; i < FILES; i++) {
        memset(&files[i].lock, 0, sizeof(files[i].lock));
        atomic_store(&files[i].plain, 0);
        files[i].save = 0;
        if (atomic_load(&files[i].state) != FILE_FREE)
            atomic_store(&files[i].state, FILE_PLAIN);
    }
}
