/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c -- the writes of a file: into the log, or plainly
 *
 * The kernel's descriptor stays the truth about where it stands: a captured write
 * moves its offset by lseek, so dup, fork and stdio see what they expect. Blocks are
 * reserved before a write is captured, so that a full disk is found by the write that
 * does not fit, not by the drain.
 */
#include <errno.h>
#include <limits.h>
#include <linux/falloc.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "beginning.h"
#include "client/source.h"
#include "common/trace.h"
#include "file.h"
#include "file_private.h"
#include "habit.h"
#include "origin.h"
#include "policy.h"
#include "promise.h"
#include "real.h"
#include "shim.h"
#include "summary.h"
#include "versions.h"

#define PIECE (1ul << 20)
#define PARTS 64
#define WRITE_MAX 0x7ffff000ul /* what the kernel takes at most in one write(2) */
#define BLOCK 4096ull
#define AHEAD_LEAST (64ull << 10)
#define AHEAD_MOST (64ull << 20)
#define AHEAD_PART 64
#define UNDER_WAY_MS 200
#define TRACED (64u << 10) /* bytes of a write, at least */
#define ORIGIN_LEAST (64ul << 10)

static int try_reserve(int fd, uint64_t start, uint64_t length)
{
    long error;

    do
        error = syscall(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE, start, length);
    while (error < 0 && errno == EINTR);
    return error < 0 ? -errno : 0;
}

/*
 * How far beyond `start` is reserved at once: at most as much as there is, and a small
 * part of what is free, so that others find about the room that they would have found.
 * Nothing within the file: what is surplus there is not trimmed at the end.
 */
static uint64_t ahead_of(const struct file *file, int fd, uint64_t start)
{
    uint64_t ahead = start < AHEAD_LEAST ? AHEAD_LEAST : start > AHEAD_MOST ? AHEAD_MOST : start;
    struct statfs status;
    uint64_t part;

    if (file->exact || start < atomic_load(&file_shared(file)->size) || fstatfs(fd, &status) < 0)
        return 0;
    part = (uint64_t)status.f_bavail * (uint64_t)status.f_bsize / AHEAD_PART;
    return ahead < part ? ahead : part;
}

/* Reserves blocks for a write, a step ahead where writes follow each other. */
static int reserve(struct file *file, int fd, uint64_t offset, uint64_t length)
{
    struct portus_file *entry = file_shared(file);
    uint64_t end = offset + length, start, step, ahead;
    int error;

    if (atomic_load(&entry->leaseless)) /* shared: what they reserve, they say at close */
        return 0;
    if (offset >= file->reserved_from && end <= file->reserved_to)
        return 0;
    if (offset >= file->reserved_from && offset <= file->reserved_to) {
        start = file->reserved_to;
        step = end - start;
        ahead = ahead_of(file, fd, start);
        if (step < ahead)
            step = ahead;
    } else {
        start = offset / BLOCK * BLOCK;
        step = end - start;
        file->reserved_from = start;
        file->reserved_to = start;
    }
    /* Said before: we may be killed at it. And after a failure part of it may be reserved. */
    if (!file->exact && start + step > atomic_load(&entry->reserved_end))
        atomic_store(&entry->reserved_end, start + step);
    error = try_reserve(fd, start, step);
    if (error != 0 && step > end - start) {
        step = end - start;
        error = try_reserve(fd, start, step);
    }
    if (error != 0)
        return error;
    file->reserved_to = start + step;
    return 0;
}

/*
 * Copies the vectors' part [skip, skip + *length) into part, *length being made smaller
 * if it takes more than PARTS. Returns how many vectors.
 */
static int slice(const struct iovec *vector, int count, size_t skip, size_t *length,
                 struct iovec *part)
{
    size_t left = *length;
    int parts = 0;

    for (int i = 0; i < count && left > 0 && parts < PARTS; i++) {
        if (skip >= vector[i].iov_len) {
            skip -= vector[i].iov_len;
            continue;
        }
        size_t here = vector[i].iov_len - skip;
        if (here > left)
            here = left;
        part[parts++] = (struct iovec){(char *)vector[i].iov_base + skip, here};
        left -= here;
        skip = 0;
    }
    *length -= left;
    return parts;
}

/* Writes [done, total) plainly, in pieces; what write(2) would return for the whole. */
static ssize_t write_plain(int fd, const struct iovec *vector, int count, size_t done, size_t total,
                           off_t offset, bool current)
{
    struct iovec part[PARTS];
    int saved = errno;

    while (done < total) {
        size_t piece = total - done < PIECE ? total - done : PIECE;
        int parts = slice(vector, count, done, &piece, part);
        ssize_t written = current ? real_writev(fd, part, parts)
                                  : real_pwritev(fd, part, parts, offset + (off_t)done);
        if (written < 0 && done == 0)
            return -1;
        if (written < 0) {
            errno = saved; /* the write was short, no more */
            break;
        }
        done += (size_t)written;
        if ((size_t)written < piece)
            break;
    }
    return (ssize_t)done;
}

/* What a file system would say a write of now was made at, ns since 1970. */
static uint64_t file_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void raise_size(struct portus_file *entry, uint64_t end)
{
    uint64_t size = atomic_load(&entry->size);

    while (size < end && !atomic_compare_exchange_weak(&entry->size, &size, end))
        ;
}

/* What this thread wrote last, and what it has copied ahead. Not on the stack: 64 KiB. */
static __thread struct file *latest __attribute__((tls_model("initial-exec")));
static __thread struct portus_ahead *ahead __attribute__((tls_model("initial-exec")));
static struct portus_ahead aheads[8];
static _Atomic uint32_t aheads_busy;

/* What a device has copied into the ring is there: only the sum is wanted. */
static bool promised_crc(const void *data, size_t length, uint32_t *crc)
{
    struct guard guard;
    bool known;

    if (!atomic_load(&promise_made) || !shim_own() || !shim_use())
        return false;
    guard = shim_guard();
    known = promise_crc(&shim.writer, data, length, crc);
    shim_unguard(&guard);
    shim_done();
    return known;
}

bool file_ahead_begin(const void *data, size_t length, size_t header, uint32_t *crc)
{
    struct file *file = latest;
    struct guard guard;
    bool held = false;

    file_ahead_end(); /* of a call that was left by longjmp */
    if (promised_crc(data, length, crc))
        return true;
    if (file == NULL || atomic_load(&file->state) != FILE_ENGAGED || !shim_own())
        return false;
    guard = shim_guard();
    for (uint32_t i = 0; i < sizeof(aheads) / sizeof(aheads[0]) && ahead == NULL; i++)
        if (!(atomic_fetch_or(&aheads_busy, 1u << i) & 1u << i))
            ahead = &aheads[i];
    if (ahead == NULL)
        goto unguard;
    portus_lock(&file->lock);
    if (atomic_load(&file->state) == FILE_ENGAGED)
        held = portus_writer_copy_ahead(&shim.writer, ahead, data, length,
                                        atomic_load(&file_shared(file)->size) + header);
    portus_unlock(&file->lock);
    if (held)
        *crc = ahead->crc;
    else
        file_ahead_end();
unguard:
    shim_unguard(&guard);
    return held;
}

void file_ahead_end(void)
{
    uint32_t number = (uint32_t)(ahead - aheads);
    struct guard guard;

    if (ahead == NULL)
        return;
    guard = shim_guard();
    if (shim_use()) {
        portus_writer_drop_ahead(&shim.writer, ahead);
        shim_done();
    }
    ahead = NULL;
    atomic_fetch_and(&aheads_busy, ~(1u << number));
    shim_unguard(&guard);
}

static size_t append(struct file *file, const void *data, size_t length, uint64_t offset,
                     uint64_t *waited)
{
    if (length >= ORIGIN_LEAST)
        origin_written(data, length);
    if (ahead != NULL && ahead->data == data && ahead->length == length)
        return portus_writer_append_ahead(&shim.writer, file->number, ahead, offset, waited);
    return promise_append(&shim.writer, file->number, data, length, offset, waited);
}

/*
 * A file that was given its size before its bytes is whole when they reach it, and may
 * then be renamed by a system call that we do not see (Rust's tempfile, for safetensors,
 * does without libc): this write publishes. Else a kill could leave a file with holes
 * under its final name.
 */
static int filled(struct file *file, int fd, uint64_t end)
{
    if (file->sized != 0 && end >= file->sized)
        file->filled = true;
    return file->filled ? shim_barrier_at("write", fd, "") : 0;
}

/* A captured write; with the lock held. True as in file_write. */
static bool capture(struct file *file, int fd, const struct iovec *vector, int count, off_t offset,
                    size_t total, ssize_t *result)
{
    struct portus_file *entry = file_shared(file);
    bool current = offset == FILE_CURRENT;
    uint64_t began = portus_now(), waited = 0;
    size_t done = 0;
    int error;

    if (total == 0 || offset < FILE_CURRENT)
        return false;
    if (current)
        offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    error = -(int)(atomic_load(&entry->error) & ~PORTUS_ERROR_REPORTED);
    if (atomic_load(&entry->last) & PORTUS_STOPPED) {
        int released = file_release_locked(file);
        if (released == 0)
            return false;
        error = error == 0 ? released : error;
    }
    if (error != 0) {
        file_release_locked(file);
        errno = -error;
        *result = -1;
        return true;
    }
    if (offset < 0 || total > (uint64_t)(INT64_MAX - offset) - PORTUS_CHUNK ||
        reserve(file, fd, (uint64_t)offset, total) != 0) {
        error = file_release_locked(file);
        if (error != 0) {
            errno = -error;
            *result = -1;
            return true;
        }
        /* Then the kernel says what is wrong, at the right byte. */
        *result = write_plain(fd, vector, count, 0, total, offset, current);
        return true;
    }
    for (int i = 0; i < count && done < total; i++) {
        size_t length = vector[i].iov_len < total - done ? vector[i].iov_len : total - done;
        size_t taken = append(file, vector[i].iov_base, length, (uint64_t)offset + done, &waited);
        done += taken;
        if (taken < length)
            break;
    }
    raise_size(entry, (uint64_t)offset + done);
    atomic_store(&entry->written, file_clock());
    if (current)
        syscall(SYS_lseek, fd, offset + (off_t)done, SEEK_SET);
    summary_captured(done, portus_now() - began);
    if (portus_trace_on() && (done >= TRACED || waited > 0))
        portus_trace(
            &(struct portus_event){PORTUS_TRACE_SPAN, "capture", "capture", .began = began},
            "\"bytes\":%llu,\"offset\":%lld,\"waited_us\":%llu", (unsigned long long)done,
            (long long)offset, (unsigned long long)waited / 1000);
    if (done < total) {
        error = file_release_locked(file);
        if (error != 0) {
            errno = -error;
            *result = -1;
            return true;
        }
        *result = write_plain(fd, vector, count, done, total, offset, current);
    } else {
        *result = (ssize_t)done;
        error = filled(file, fd, (uint64_t)offset + done);
        if (error != 0) {
            if (current) /* a write that fails moves nothing */
                syscall(SYS_lseek, fd, offset, SEEK_SET);
            errno = -error;
            *result = -1;
        }
    }
    return true;
}

/*
 * Waits for the plain writes that had been decided on before the file engaged. Not for ever:
 * one may lie below us, under a signal handler that writes, or was left by longjmp.
 */
static bool settled(struct file *file)
{
    for (unsigned tries = 0; (atomic_load(&file->plain) & FILE_PLAIN_NOW) != 0; tries++) {
        if (tries == UNDER_WAY_MS)
            return false;
        poll(NULL, 0, tries != 0);
    }
    return true;
}

/* For the timeline: whether this save is captured, and why not. */
static void begin_save(struct file *file, const char *path, const char *reason)
{
    if (!portus_trace_on() || file->save != 0)
        return;
    file->save = portus_trace_id();
    portus_trace(&(struct portus_event){PORTUS_TRACE_BEGIN, "save", "save", file->save,
                                        .began = file->opened, path, reason},
                 "\"captured\":%s", reason == NULL ? "true" : "false");
}

/* Engages a candidate if policy says so; with the lock held. False: fail, errno says why. */
static bool consider(struct file *file, int fd, size_t total)
{
    char path[PATH_MAX];
    struct portus_claim claim = {.fd = fd};
    struct beginning beginning;
    struct portus_writer *writer;
    const char *why = NULL;
    enum verdict verdict;
    int number, error;

    verdict = policy_judge(file, fd, total, &claim, path, sizeof(path));
    if (verdict == VERDICT_NOT_YET || verdict == VERDICT_NOT_OURS)
        return true;
    if (verdict == VERDICT_SAMPLE) {
        file->sampled = true;
        begin_save(file, path, policy_words(verdict));
        atomic_store(&file->state, FILE_PLAIN);
        return true;
    }
    if (verdict == VERDICT_CAPTURE && shim.env.mode == PORTUS_REPORT) {
        summary_would();
        begin_save(file, path, "PORTUS=report");
        atomic_store(&file->state, FILE_PLAIN);
        return true;
    }
    if (verdict == VERDICT_CAPTURE) {
        writer = shim_writer(&why);
        if (writer == NULL) {
            verdict = VERDICT_AGENT;
        } else {
            claim.hurried = habit_hurries(path, claim.inode);
            claim.replaces = file->emptied;
            beginning_read(&beginning, file, fd);
            number = portus_writer_engage(writer, &claim);
            if (number < 0) {
                verdict = policy_verdict(number);
            } else {
                file->number = (unsigned)number;
                file->device = claim.device;
                file->inode = claim.inode;
                atomic_store(&file->state, FILE_ENGAGED);
                shim_watch();
                if (settled(file)) {
                    /* By small writes of other threads since it was judged. */
                    file_grown_locked(file, fd);
                    file->captured = true;
                    begin_save(file, path, NULL);
                    summary_captured_file();
                    policy_announce(writer, path, fd);
                } else {
                    file_release_locked(file);
                    verdict = VERDICT_UNDER_WAY;
                }
            }
            beginning_log(&beginning, file, verdict == VERDICT_CAPTURE);
            shim_done();
            if (verdict == VERDICT_CAPTURE)
                return true;
        }
    }
    /* Not captured, so not in the log: what is must come first. */
    error = -shim_barrier_at("write", fd, "");
    atomic_store(&file->state, FILE_PLAIN);
    if (error != 0) {
        errno = error;
        return false;
    }
    if (verdict == VERDICT_EXCLUDED)
        return true;
    if (file->checkpoint)
        begin_save(file, path, policy_words(verdict));
    errno = ENOTSUP;
    return !policy_refuse(file, verdict, path, why);
}

/*
 * A write that would lie beyond the place where a stream writes unseen, and might so come
 * after what is written later: see file_streamed. It is made plainly, after all that is in
 * the log. 0, or an errno to fail with; with the lock held.
 */
static int stay_behind(struct file *file, int fd)
{
    int error = 0;

    if (atomic_load(&file->state) == FILE_ENGAGED && file_same(file, fd))
        error = -file_release_locked(file);
    if (error == 0 && shim_live())
        error = -shim_barrier_at("write", fd, "");
    return error;
}

static bool beyond(const struct file *file, int fd, off_t offset, size_t total)
{
    return offset >= 0 && total > 0 && atomic_load(&file->streamed) &&
           (uint64_t)offset + total > (uint64_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
}

static void note_head(struct file *file, const struct iovec *vector, int count, off_t offset)
{
    size_t length;

    if (file->head_length > 0 || count < 1 || (offset != FILE_CURRENT && offset != 0))
        return;
    length = vector[0].iov_len < FILE_HEAD ? vector[0].iov_len : FILE_HEAD;
    if (length == 0 || vector[0].iov_base == NULL)
        return;
    /* By the kernel: the program's pointer may be wrong. */
    struct iovec local = {file->head, length}, remote = {vector[0].iov_base, length};
    if (syscall(SYS_process_vm_readv, getpid(), &local, 1ul, &remote, 1ul, 0ul) == (long)length)
        file->head_length = (uint8_t)length;
}

/* A write that is not captured; false: the caller makes the plain call. */
static bool write_uncaptured(const struct file *file, int fd, const struct iovec *vector, int count,
                             off_t offset, size_t total, ssize_t *result)
{
    bool current = offset == FILE_CURRENT;
    uint64_t began = portus_now();
    int saved = errno;

    if (file->sampled) {
        *result =
            current ? real_writev(fd, vector, count) : real_pwritev(fd, vector, count, offset);
        if (*result > 0)
            summary_plain((uint64_t)*result, portus_now() - began);
        return true;
    }
    if (total <= PIECE || offset < FILE_CURRENT || shim.env.mode == PORTUS_REPORT ||
        !policy_pieces(fd))
        return false;
    for (int i = 0; i < count; i++) /* EFAULT is better met by one call, as without us */
        if (!portus_source_readable(NULL, vector[i].iov_base, vector[i].iov_len)) {
            errno = saved;
            return false;
        }
    *result = write_plain(fd, vector, count, 0, total, offset, current);
    return true;
}

bool file_write(struct file *file, int fd, const struct iovec *vector, int count, off_t offset,
                ssize_t *result, bool *begun)
{
    uint32_t state = atomic_load(&file->state);
    struct guard guard;
    size_t total = 0;
    bool done = false;
    int error;

    *begun = false;
    if (state == FILE_FREE || count <= 0 || count > IOV_MAX)
        return false;
    for (int i = 0; i < count; i++) {
        if (vector[i].iov_len > (size_t)SSIZE_MAX - total)
            return false;
        total += vector[i].iov_len;
    }
    if (total > WRITE_MAX)
        total = WRITE_MAX;
    if (!shim_own())
        return false;
    if (file->untold && (error = file_error(file, true)) != 0) {
        errno = error;
        *result = -1;
        return true;
    }
    if (state == FILE_CANDIDATE && total < shim.env.min_write && !shim_live()) {
        if (file->head_length == 0)
            note_head(file, vector, count, offset);
        if ((*begun = file_begin_plain(file)))
            return false;
        state = atomic_load(&file->state);
    }
    if (state == FILE_PLAIN)
        return write_uncaptured(file, fd, vector, count, offset, total, result);

    if (pthread_testcancel != NULL)
        pthread_testcancel(); /* as write(2) would; not while a lock is held */
    guard = shim_guard();
    portus_lock(&file->lock);
    if (fdtab_file(fd) != file)
        goto unlock;
    if (beyond(file, fd, offset, total)) {
        errno = stay_behind(file, fd);
        *result = -1;
        done = errno != 0;
        goto unlock;
    }
    if (atomic_load(&file->state) == FILE_CANDIDATE) {
        note_head(file, vector, count, offset);
        if (!consider(file, fd, total)) {
            *result = -1;
            done = true;
            goto unlock;
        }
    }
    if (atomic_load(&file->state) == FILE_ENGAGED && file_same(file, fd)) {
        latest = file;
        done = capture(file, fd, vector, count, offset, total, result);
    }
unlock:
    if (done && *result < 0)
        guard.error = errno;
    if (!done)
        *begun = file_begin_plain(file);
    portus_unlock(&file->lock);
    shim_unguard(&guard);
    /* A long plain write is not made under a lock, nor with signals blocked. */
    if (!done && write_uncaptured(file, fd, vector, count, offset, total, result)) {
        if (*begun)
            file_written(file);
        *begun = false;
        done = true;
    }
    return done;
}
