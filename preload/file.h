/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.h -- a file that the program writes and that is, or may become, captured
 *
 * States: a CANDIDATE is an ordinary file that was empty when it was opened for
 * writing; ENGAGED, its writes go into the log; PLAIN, it is an ordinary file for
 * good. policy.h decides, this does.
 *
 * Functions below may wait for the drain. They keep errno unless they say so.
 */
#ifndef PORTUS_PRELOAD_FILE_H
#define PORTUS_PRELOAD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/futex.h"
#include "fdtab.h"

enum file_state { FILE_FREE, FILE_CANDIDATE, FILE_ENGAGED, FILE_PLAIN };

#define FILE_HEAD 32

struct file {
    _Atomic uint32_t state;              /* enum file_state */
    _Atomic uint32_t fds;                /* descriptors of the program in fdtab */
    _Atomic uint32_t plain;              /* writes of a candidate: see FILE_PLAIN_NOW */
    struct portus_lock lock;             /* of all below; held while a write is captured */
    unsigned number;                     /* engaged: in the control segment */
    uint64_t device, inode;              /* engaged */
    uint64_t reserved_from, reserved_to; /* blocks are reserved between, bytes */
    uint64_t sized;                      /* by the program, before the first byte; 0: it was not */
    uint8_t head[FILE_HEAD];             /* first bytes of the file, for policy */
    uint8_t head_length;
    _Atomic int first;     /* the descriptor that it was opened as */
    _Atomic uint8_t named; /* of a candidate, by its name: 1 a checkpoint, 2 not; 0: not looked */
    _Atomic bool streamed; /* a stream is on it, or was: see file_streamed */
    bool created;          /* by the open that we saw, not only emptied */
    bool emptied;          /* by that open: it takes the place of what it was */
    bool captured;         /* at some time */
    bool sampled;          /* left plain to measure what plain writing costs */
    bool checkpoint;       /* policy takes it for one: not only kept in order */
    bool counted;          /* as refused, in the summary */
    bool exact;            /* the program reserves blocks itself: we none ahead, and trim none */
    bool synced;           /* by the program, since it was captured */
    bool filled;           /* a write has reached the size that was set before */
    uint64_t opened, save; /* for the timeline: when, ns; its number, or 0 */
    bool untold;           /* error below was found where it could not be returned */
    int error; /* errno of bytes that were taken and lost, once released: fsync, close return it */
};

#define FILES 4096
extern struct file files[FILES];

/* The file behind fd that we keep an eye on, or NULL. */
static inline struct file *fdtab_file(int fd)
{
    uint16_t entry;

    if ((unsigned)fd >= FDTAB_SIZE)
        return NULL;
    entry = atomic_load_explicit(&fdtab[fd], memory_order_relaxed);
    if (__builtin_expect((uint16_t)(entry - 1) >= FILES, 1))
        return NULL;
    return &files[entry - 1];
}

#define FILE_CURRENT (-1) /* the offset of the descriptor */

/* Makes fd a candidate. created: the file did not exist before; emptied: it had bytes. */
void file_candidate(int fd, bool created, bool emptied);

/* Another descriptor of the same description. */
void file_duplicate(int fd, int other);

/*
 * Writes count vectors at offset (or FILE_CURRENT) by capturing, or plainly in
 * pieces. True: done, *result and errno are write(2)'s. False: the caller makes
 * the plain call; and file_written after it, if *begun.
 */
bool file_write(struct file *file, int fd, const struct iovec *vector, int count, off_t offset,
                ssize_t *result, bool *begun);

/* libc's word on whether this process has one thread (glibc 2.32), or a constant 0. */
extern const char *file_single_threaded;

/* The lower half of file.plain: writes that are under way. The upper: that have begun. */
#define FILE_PLAIN_NOW 0xffffu

static inline void file_count_plain(struct file *file, uint32_t by)
{
    /* Alone it need not be atomic, which costs a log's small write more than all else. */
    if (*file_single_threaded)
        atomic_store_explicit(&file->plain,
                              atomic_load_explicit(&file->plain, memory_order_relaxed) + by,
                              memory_order_relaxed);
    else
        atomic_fetch_add(&file->plain, by);
}

/*
 * Around a plain write of a candidate, which does not engage meanwhile: what another thread
 * captures would take the same place. False: it is no candidate any more.
 */
static inline bool file_begin_plain(struct file *file)
{
    file_count_plain(file, FILE_PLAIN_NOW + 2);
    if (atomic_load(&file->state) == FILE_CANDIDATE)
        return true;
    file_count_plain(file, UINT32_MAX);
    return false;
}

static inline void file_written(struct file *file)
{
    file_count_plain(file, UINT32_MAX);
}

/*
 * torch is about to write length bytes at data to the file that this thread wrote
 * last, after a header of that many bytes. Copies them into the ring at once if that
 * file is captured; *crc is their CRC-32. file_ahead_end after the write, always if
 * it returned true; it does nothing where nothing is held.
 */
bool file_ahead_begin(const void *data, size_t length, size_t header, uint32_t *crc);
void file_ahead_end(void);

/* Waits until what was captured of the file is in it. 0, or an errno to fail with. */
int file_drain(struct file *file, int fd);
/* Whether what was captured of the file is durable, in a store, without being in it; waits. */
bool file_kept(struct file *file, int fd);
/* As file_drain, where the file may be changed then, bytes that were captured too. */
int file_drain_aside(struct file *file, int fd);

/*
 * Before libc or the kernel changes the file without the log: what is in the log comes
 * first, that of other files where this one is not captured yet. 0, or an errno to fail with.
 */
int file_before_unlogged(struct file *file, int fd);

/* The same as file_drain, and the file is plain from then on. 0, or an errno to fail with. */
int file_release(struct file *file, int fd);

/* The file is written by stdio as well, which does so unseen: it is not trimmed meanwhile. */
void file_of_stream(struct file *file);

/*
 * A stream may read and write unseen, where the descriptor stands. So all that is in the log
 * must lie before that place while there is a stream: these wait where it does not, when
 * the stream has come and after the place was moved; capture.c takes no write beyond it. 0,
 * or an errno to fail with.
 */
int file_streamed(struct file *file, int fd);
int file_before_stream(struct file *file, int fd);

/* Before the program reserves blocks beyond the end of its file: they are its own. */
int file_reserved_by_program(struct file *file, int fd);

/* The size as the program knows it; false when it is the kernel's. */
bool file_size(struct file *file, int fd, off_t *size);

/*
 * The errno of bytes that were lost before the file was released, or 0: for a call that
 * returns it. News: only if no call has returned it yet.
 */
int file_error(struct file *file, bool news);

/* After the kernel has changed a drained file's size. */
void file_resized(struct file *file, int fd);

/* Before the program locks a file: no closing of a copy of ours may drop the lock later. */
void file_before_lock(int fd);

/* Before fd is closed or replaced. 0, or an errno that close should return. */
int file_close(int fd);

/* The same where no errno can be returned: a publishing call will, or the end. */
void file_replace(int fd);

/* All files of this process */
bool files_saving(void);             /* whether a checkpoint is open for writing, or may be */
void files_release(bool closed_too); /* waits; closed_too: also what is closed and live */
int files_before_unlogged(void);     /* file_before_unlogged, where it is not known which */
void files_share(void);              /* no candidate becomes engaged any more */
void files_lock(void);               /* around fork */
void files_unlock(void);
void files_forget(void); /* in a forked child */

/*
 * Releases whatever live file path names (NULL: the open descriptor at), and waits: before its
 * metadata changes. flags: AT_SYMLINK_NOFOLLOW counts.
 */
void live_release_at(int at, const char *path, int flags);

/*
 * Before path is opened, while files are live: where no lease makes its opener wait, on a
 * shared file system or with O_NONBLOCK, this does.
 */
void live_before_open(int at, const char *path, int flags);

/* Whether somebody of this job holds a description of the file for capturing it. */
bool live_known(uint64_t device, uint64_t inode);

/*
 * The size of a file of any process of this job: LIVE_SIZE, it is *size; LIVE_SETTLING,
 * it has just become the kernel's; LIVE_NOT, it was not captured.
 */
enum live_answer { LIVE_NOT, LIVE_SIZE, LIVE_SETTLING };
enum live_answer live_size(uint64_t device, uint64_t inode, off_t *size);

#endif
