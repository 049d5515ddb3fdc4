/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_stdio.c -- streams
 *
 * libc's own reads and writes inside stdio cannot be interposed. C++ streams use
 * fopen and fclose, and plain calls on the descriptor between them. NumPy and C
 * programs fwrite: a large one is captured whole, after stdio has flushed what it
 * held, and stdio is moved past it. What stdio writes by itself goes straight to
 * the file, so the log is drained before that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fdtab.h"
#include "file.h"
#include "lent.h"
#include "policy.h"
#include "real.h"
#include "restore.h"
#include "shim.h"

#undef fwrite_unlocked /* a macro in some headers */

/* open(2)'s flags of an fopen mode that writes; 0 for one that only reads. */
static int flags_of(const char *mode)
{
    int flags = strchr(mode, '+') != NULL ? O_RDWR : O_WRONLY;

    switch (mode[0]) {
    case 'w':
        return flags | O_CREAT | O_TRUNC | (strchr(mode, 'x') != NULL ? O_EXCL : 0);
    case 'a':
        return flags | O_CREAT | O_APPEND;
    default:
        return strchr(mode, '+') != NULL ? O_RDWR : 0;
    }
}

static FILE *open_stream(FILE *(*real)(const char *, const char *), const char *path,
                         const char *mode)
{
    int flags = flags_of(mode), error;
    enum before before;
    FILE *stream;

    if (shim_live())
        live_before_open(AT_FDCWD, path, 0);
    if (flags == 0) {
        do
            stream = real(path, mode);
        while (INTERRUPTED(stream == NULL, AT_FDCWD, path));
        if (!restore_off() && stream != NULL && restore_on())
            restore_opened(fileno_unlocked(stream));
        return stream;
    }
    error = policy_open(AT_FDCWD, path, flags);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    before = policy_before(AT_FDCWD, path, flags);
    do
        stream = real(path, mode);
    while (INTERRUPTED(stream == NULL, AT_FDCWD, path));
    if (stream != NULL) {
        fdtab_stream_comes(fileno_unlocked(stream));
        policy_opened(fileno_unlocked(stream), flags, before);
    }
    return stream;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    return open_stream(real_fopen, path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return open_stream(real_fopen64, path, mode);
}

/* The engaged file of a stream, or NULL. */
static struct file *engaged(FILE *stream, int *fd)
{
    struct file *file;

    *fd = fileno_unlocked(stream);
    file = fdtab_file(*fd);
    return file != NULL && atomic_load(&file->state) == FILE_ENGAGED ? file : NULL;
}

/* As stdio does when a write of its own fails. */
static void fail(FILE *stream, int error)
{
    stream->_flags |= _IO_ERR_SEEN;
    errno = error;
}

/*
 * Before stdio may write by itself: what it writes must not come before what is in
 * the log. 0, or the errno of an earlier write.
 */
static int before_flush(FILE *stream)
{
    int fd = fileno_unlocked(stream);
    struct file *file = fdtab_file(fd);

    return file != NULL && __fpending(stream) > 0 ? file_before_unlogged(file, fd) : 0;
}

/* After it may have: the size has changed behind the log. */
static void after_flush(FILE *stream)
{
    int fd;
    struct file *file = engaged(stream, &fd);

    if (file != NULL)
        file_resized(file, fd);
}

/* "a" sets O_APPEND, by a call inside libc. */
EXPORT FILE *fdopen(int fd, const char *mode)
{
    struct file *file = fdtab_file(fd);
    FILE *stream;
    int error = 0;

    if (file != NULL)
        error = mode[0] == 'a' ? file_release(file, fd) : file_streamed(file, fd);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    stream = real_fdopen(fd, mode);
    if (stream != NULL)
        fdtab_stream_comes(fd);
    return stream;
}

static FILE *open_again(FILE *(*real)(const char *, const char *, FILE *), const char *path,
                        const char *mode, FILE *stream)
{
    int fd = fileno_unlocked(stream), flags = flags_of(mode), error;
    struct file *file = fdtab_file(fd);
    enum before before;
    FILE *result;

    if (file != NULL)
        file_release(file, fd);
    file_replace(fd); /* stdio would not say an error of the old file either */
    if (shim_live())  /* waits for it: where a signal cuts that short, the stream is gone */
        live_before_open(AT_FDCWD, path, O_NONBLOCK);
    error = path != NULL ? policy_open(AT_FDCWD, path, flags) : 0;
    if (error != 0) {
        errno = error;
        return NULL;
    }
    before = policy_before(AT_FDCWD, path, flags);
    fdtab_stream_goes(fd);
    result = real(path, mode, stream);
    if (result != NULL)
        fdtab_stream_comes(fileno_unlocked(result));
    if (result != NULL && path != NULL && flags == 0 && !restore_off() && restore_on())
        restore_opened(fileno_unlocked(result));
    if (result != NULL && path != NULL)
        policy_opened(fileno_unlocked(result), flags, before == WAS_FULL ? WAS_FULL : WAS_EMPTY);
    return result;
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    return open_again(real_freopen, path, mode, stream);
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *stream)
{
    return open_again(real_freopen64, path, mode, stream);
}

EXPORT int fclose(FILE *stream)
{
    int fd = fileno_unlocked(stream), error, result;

    fdtab_stream_goes(fd);
    if (lent(fd))
        lent_end(fd);
    if (fdtab_file(fd) == NULL)
        return real_fclose(stream);
    error = before_flush(stream);
    if (__fpending(stream) > 0)
        real_fflush(stream);
    if (error == 0)
        error = file_close(fd);
    else
        file_close(fd);
    result = real_fclose(stream);
    if (error != 0 && result == 0) {
        errno = error;
        return EOF;
    }
    return result;
}

/* Streams are not known here: what they hold is written after the log. */
EXPORT int fcloseall(void)
{
    int result;

    shim_release_open();
    result = real_fcloseall();
    for (int fd = 3; fd < FDTAB_SIZE; fd++)
        if (fdtab_stream(fd))
            atomic_store(&fdtab_streams[fd], 0);
    return result;
}

EXPORT int fflush(FILE *stream)
{
    int fd, error, result;
    struct file *file = stream != NULL ? engaged(stream, &fd) : NULL;

    if (stream == NULL) {
        /* All streams: those with something to write are not known here. */
        shim_release_open();
        error = files_before_unlogged();
        result = real_fflush(NULL);
        if (error != 0)
            errno = error;
        return error != 0 ? EOF : result;
    }
    if (file == NULL) {
        error = before_flush(stream);
    } else {
        if (__fpending(stream) == 0 && !__freadable(stream))
            return real_fflush(stream);
        error = file_drain(file, fd);
    }
    if (error != 0) {
        fail(stream, error);
        return EOF;
    }
    result = real_fflush(stream);
    if (file != NULL)
        after_flush(stream);
    return result;
}

static int move(int (*real)(FILE *, off_t, int), FILE *stream, off_t offset, int whence)
{
    int fd, error = 0, result;
    struct file *file = engaged(stream, &fd);

    /* What stdio writes or reads there is not seen. */
    error = file != NULL ? file_drain_aside(file, fd) : before_flush(stream);
    if (error != 0) {
        errno = error;
        return -1;
    }
    result = real(stream, offset, whence);
    if (file != NULL)
        after_flush(stream);
    return result;
}

EXPORT int fseek(FILE *stream, long offset, int whence)
{
    return move(real_fseek, stream, offset, whence);
}

EXPORT int fseeko(FILE *stream, off_t offset, int whence)
{
    return move(real_fseeko, stream, offset, whence);
}

EXPORT int fseeko64(FILE *stream, off_t offset, int whence)
{
    return move(real_fseeko64, stream, offset, whence);
}

EXPORT void rewind(FILE *stream)
{
    move(real_fseeko, stream, 0, SEEK_SET);
    clearerr_unlocked(stream);
}

/* A position is opaque: what it leads to is not looked at, only what comes before. */
#define SETPOS(name, type)                                                                         \
    EXPORT int name(FILE *stream, const type *position)                                            \
    {                                                                                              \
        int fd, error;                                                                             \
        struct file *file = engaged(stream, &fd);                                                  \
                                                                                                   \
        error = file != NULL ? file_drain_aside(file, fd) : before_flush(stream);                  \
        if (error != 0) {                                                                          \
            errno = error;                                                                         \
            return -1;                                                                             \
        }                                                                                          \
        return real_##name(stream, position);                                                      \
    }
SETPOS(fsetpos, fpos_t)
SETPOS(fsetpos64, fpos64_t)

/*
 * Captures a large fwrite, as far as it can be. Returns the bytes taken; *rest: stdio is to
 * do the rest. Not after an error: what its buffer held, or what was written before, is lost.
 */
static size_t take(struct file *file, FILE *stream, const void *data, size_t bytes, bool *rest)
{
    int fd = fileno_unlocked(stream), error = before_flush(stream);
    size_t taken = 0;
    ssize_t written;
    bool begun;

    *rest = false;
    if (error != 0)
        fail(stream, error);
    if (error != 0 || real_fflush(stream) != 0)
        return 0;
    after_flush(stream);
    while (taken < bytes) {
        struct iovec vector = {(char *)data + taken, bytes - taken};
        bool done = file_write(file, fd, &vector, 1, FILE_CURRENT, &written, &begun);
        if (begun)
            file_written(file); /* stdio's own is not seen */
        if (!done || written == 0) {
            *rest = true;
            break;
        }
        if (written < 0) {
            fail(stream, errno);
            break;
        }
        taken += (size_t)written;
    }
    /* Where the descriptor is now stdio asks the kernel: since the flush it does not know. */
    if (taken > 0)
        file_of_stream(file);
    return taken;
}

static size_t put(size_t (*real)(const void *, size_t, size_t, FILE *), const void *data,
                  size_t size, size_t count, FILE *stream, bool locked)
{
    int fd = fileno_unlocked(stream);
    struct file *file = fdtab_file(fd);
    size_t bytes, taken, result;
    bool rest;
    int error;

    if (file == NULL || size == 0 || count == 0 || __builtin_mul_overflow(size, count, &bytes))
        return real(data, size, count, stream);
    if (bytes >= shim.env.min_write && bytes >= BUFSIZ && __fwritable(stream) && shim_own()) {
        if (locked)
            flockfile(stream);
        taken = take(file, stream, data, bytes, &rest);
        if (rest)
            taken += real((const char *)data + taken, 1, bytes - taken, stream);
        if (locked)
            funlockfile(stream);
        return taken / size;
    }
    if (atomic_load(&file->state) != FILE_ENGAGED && !shim_live())
        return real(data, size, count, stream);
    /* A small one stays in stdio's buffer, or makes stdio write. */
    if (__fpending(stream) + bytes < __fbufsize(stream))
        return real(data, size, count, stream);
    error = file_before_unlogged(file, fd);
    if (error != 0) {
        fail(stream, error);
        return 0;
    }
    result = real(data, size, count, stream);
    after_flush(stream);
    return result;
}

EXPORT size_t fwrite(const void *data, size_t size, size_t count, FILE *stream)
{
    return put(real_fwrite, data, size, count, stream, true);
}

EXPORT size_t fwrite_unlocked(const void *data, size_t size, size_t count, FILE *stream)
{
    return put(real_fwrite_unlocked, data, size, count, stream, false);
}

EXPORT size_t fread(void *data, size_t size, size_t count, FILE *stream)
{
    int fd, error;
    struct file *file = engaged(stream, &fd);

    if (file != NULL && (error = file_drain(file, fd)) != 0) {
        fail(stream, error);
        return 0;
    }
    return real_fread(data, size, count, stream);
}

/*
 * --- a text for a descriptor: libc writes it, unseen, where the descriptor stands ---
 *
 * So nothing of the file may be captured meanwhile either, by another thread.
 */

static bool before_text(int fd)
{
    struct file *file = fdtab_file(fd);
    int error = file != NULL ? file_release(file, fd) : 0;

    if (error != 0)
        errno = error;
    return error == 0;
}

EXPORT int vdprintf(int fd, const char *format, va_list list)
{
    return before_text(fd) ? real_vdprintf(fd, format, list) : -1;
}

EXPORT int dprintf(int fd, const char *format, ...)
{
    va_list list;
    int result;

    va_start(list, format);
    result = vdprintf(fd, format, list);
    va_end(list);
    return result;
}

/* Fortified */
int __vdprintf_chk(int fd, int flag, const char *format, va_list list);
int __dprintf_chk(int fd, int flag, const char *format, ...);

EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list list)
{
    return before_text(fd) ? real___vdprintf_chk(fd, flag, format, list) : -1;
}

EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list list;
    int result;

    va_start(list, format);
    result = __vdprintf_chk(fd, flag, format, list);
    va_end(list);
    return result;
}
