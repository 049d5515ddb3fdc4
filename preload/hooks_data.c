/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_data.c -- bytes in and out of descriptors, and what needs them whole
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/source.h"
#include "common/trace.h"
#include "fdtab.h"
#include "file.h"
#include "lent.h"
#include "real.h"
#include "shim.h"

/* --- writes --- */

#define WRITES(fd, vector, count, offset, call)                                                    \
    do {                                                                                           \
        struct file *file_ = fdtab_file(fd);                                                       \
        bool begun_ = false;                                                                       \
        ssize_t result_;                                                                           \
        if (file_ != NULL && file_write(file_, fd, vector, count, offset, &result_, &begun_))      \
            return result_;                                                                        \
        result_ = call;                                                                            \
        if (begun_)                                                                                \
            file_written(file_);                                                                   \
        return result_;                                                                            \
    } while (0)

/* A small write to a file that is nothing to us but a candidate, as most logs are. */
static inline bool passes(const struct file *file, size_t length)
{
    return atomic_load_explicit(&file->state, memory_order_relaxed) == FILE_CANDIDATE &&
           file->head_length > 0 && length < shim.env.min_write && !shim_live();
}

/* Not inlined, both: most calls then need no stack frame. */
__attribute__((noinline)) static ssize_t write_watched(int fd, const void *data, size_t length)
{
    struct iovec vector = {(void *)data, length};

    WRITES(fd, &vector, 1, FILE_CURRENT, real_write(fd, data, length));
}

__attribute__((noinline)) static ssize_t write_small(struct file *file, int fd, const void *data,
                                                     size_t length)
{
    ssize_t result;

    if (!file_begin_plain(file))
        return write_watched(fd, data, length);
    result = real_write(fd, data, length);
    file_written(file);
    return result;
}

EXPORT ssize_t write(int fd, const void *data, size_t length)
{
    struct file *file = fdtab_file(fd);

    if (file == NULL)
        return real_write(fd, data, length);
    if (passes(file, length))
        return write_small(file, fd, data, length);
    return write_watched(fd, data, length);
}

/* As file_write, of vectors that are the program's: they may lie anywhere, or nowhere. */
static bool write_vectors(struct file *file, int fd, const struct iovec *vector, int count,
                          off_t offset, ssize_t *result, bool *begun)
{
    return count > 0 && count <= IOV_MAX &&
           portus_source_readable(NULL, vector, (size_t)count * sizeof(*vector)) &&
           file_write(file, fd, vector, count, offset, result, begun);
}

#define WRITES_VECTORS(fd, vector, count, offset, call)                                            \
    do {                                                                                           \
        struct file *file_ = fdtab_file(fd);                                                       \
        int saved_ = errno;                                                                        \
        bool begun_ = false;                                                                       \
        ssize_t result_;                                                                           \
        if (file_ != NULL && write_vectors(file_, fd, vector, count, offset, &result_, &begun_))   \
            return result_;                                                                        \
        errno = saved_;                                                                            \
        result_ = call;                                                                            \
        if (begun_)                                                                                \
            file_written(file_);                                                                   \
        return result_;                                                                            \
    } while (0)

EXPORT ssize_t writev(int fd, const struct iovec *vector, int count)
{
    WRITES_VECTORS(fd, vector, count, FILE_CURRENT, real_writev(fd, vector, count));
}

/* -1 is not FILE_CURRENT here but an invalid offset, which is the kernel's to refuse. */
#define AT(offset) ((offset) < 0 ? INT64_MIN : (offset))

EXPORT ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    struct iovec vector = {(void *)data, length};

    WRITES(fd, &vector, 1, AT(offset), real_pwrite(fd, data, length, offset));
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset)
{
    struct iovec vector = {(void *)data, length};

    WRITES(fd, &vector, 1, AT(offset), real_pwrite64(fd, data, length, offset));
}

EXPORT ssize_t pwritev(int fd, const struct iovec *vector, int count, off_t offset)
{
    WRITES_VECTORS(fd, vector, count, AT(offset), real_pwritev(fd, vector, count, offset));
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *vector, int count, off_t offset)
{
    WRITES_VECTORS(fd, vector, count, AT(offset), real_pwritev64(fd, vector, count, offset));
}

static inline int drain(struct file *file, int fd)
{
    return atomic_load(&file->state) == FILE_ENGAGED ? file_drain(file, fd) : 0;
}

__attribute__((noinline)) static int traced(int (*wait)(struct file *, int), struct file *file,
                                            int fd, const char *call)
{
    uint64_t began = portus_now();
    int error = wait(file, fd);

    shim_trace_wait(call, began);
    return error;
}

/* Waits, and fails the call with the error of an earlier write if there was one. */
#define AFTER(wait, fd)                                                                            \
    do {                                                                                           \
        struct file *file_ = fdtab_file(fd);                                                       \
        int error_;                                                                                \
        if (file_ != NULL && (error_ = portus_trace_on() ? traced(wait, file_, fd, __func__)       \
                                                         : wait(file_, fd)) != 0) {                \
            errno = error_;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

EXPORT ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    if (flags == 0)
        WRITES_VECTORS(fd, vector, count, offset == -1 ? FILE_CURRENT : AT(offset),
                       real_pwritev2(fd, vector, count, offset, flags));
    AFTER(file_release, fd);
    return real_pwritev2(fd, vector, count, offset, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    if (flags == 0)
        WRITES_VECTORS(fd, vector, count, offset == -1 ? FILE_CURRENT : AT(offset),
                       real_pwritev64v2(fd, vector, count, offset, flags));
    AFTER(file_release, fd);
    return real_pwritev64v2(fd, vector, count, offset, flags);
}

/* --- reads: wait for the log, or come from the pool --- */

#define LENT(fd, data, length, offset)                                                             \
    do {                                                                                           \
        ssize_t result_;                                                                           \
        if (lent(fd) && lent_read(fd, data, length, offset, &result_))                             \
            return result_;                                                                        \
    } while (0)

EXPORT ssize_t read(int fd, void *data, size_t length)
{
    LENT(fd, data, length, LENT_CURRENT);
    AFTER(drain, fd);
    return real_read(fd, data, length);
}

EXPORT ssize_t readv(int fd, const struct iovec *vector, int count)
{
    AFTER(drain, fd);
    return real_readv(fd, vector, count);
}

EXPORT ssize_t pread(int fd, void *data, size_t length, off_t offset)
{
    LENT(fd, data, length, AT(offset));
    AFTER(drain, fd);
    return real_pread(fd, data, length, offset);
}

EXPORT ssize_t pread64(int fd, void *data, size_t length, off_t offset)
{
    LENT(fd, data, length, AT(offset));
    AFTER(drain, fd);
    return real_pread64(fd, data, length, offset);
}

EXPORT ssize_t preadv(int fd, const struct iovec *vector, int count, off_t offset)
{
    AFTER(drain, fd);
    return real_preadv(fd, vector, count, offset);
}

EXPORT ssize_t preadv64(int fd, const struct iovec *vector, int count, off_t offset)
{
    AFTER(drain, fd);
    return real_preadv64(fd, vector, count, offset);
}

EXPORT ssize_t preadv2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    AFTER(drain, fd);
    return real_preadv2(fd, vector, count, offset, flags);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    AFTER(drain, fd);
    return real_preadv64v2(fd, vector, count, offset, flags);
}

ssize_t __read_chk(int fd, void *data, size_t length, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t length, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *data, size_t length, off_t offset, size_t room);

EXPORT ssize_t __read_chk(int fd, void *data, size_t length, size_t room)
{
    LENT(fd, data, length <= room ? length : 0, LENT_CURRENT);
    AFTER(drain, fd);
    return real___read_chk(fd, data, length, room);
}

EXPORT ssize_t __pread_chk(int fd, void *data, size_t length, off_t offset, size_t room)
{
    LENT(fd, data, length <= room ? length : 0, AT(offset));
    AFTER(drain, fd);
    return real___pread_chk(fd, data, length, offset, room);
}

EXPORT ssize_t __pread64_chk(int fd, void *data, size_t length, off_t offset, size_t room)
{
    LENT(fd, data, length <= room ? length : 0, AT(offset));
    AFTER(drain, fd);
    return real___pread64_chk(fd, data, length, offset, room);
}

/* --- the place in the file, and its size --- */

static off_t seek(off_t (*real)(int, off_t, int), int fd, off_t offset, int whence)
{
    struct file *file = fdtab_file(fd);
    off_t size, place;
    int error;

    if (file == NULL)
        return real(fd, offset, whence);
    if (whence == SEEK_END && file_size(file, fd, &size)) {
        if (__builtin_add_overflow(size, offset, &offset)) {
            errno = EOVERFLOW;
            return -1;
        }
        if (offset < 0) {
            errno = EINVAL;
            return -1;
        }
        whence = SEEK_SET;
    } else if (whence != SEEK_SET && whence != SEEK_CUR) {
        AFTER(drain, fd);
    }
    place = real(fd, offset, whence);
    if (place < 0 || (whence == SEEK_CUR && offset == 0))
        return place;
    error = file_before_stream(file, fd);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return place;
}

EXPORT off_t lseek(int fd, off_t offset, int whence)
{
    return seek(real_lseek, fd, offset, whence);
}

EXPORT off_t lseek64(int fd, off_t offset, int whence)
{
    return seek(real_lseek64, fd, offset, whence);
}

static int resize(int (*real)(int, off_t), int fd, off_t length)
{
    struct file *file = fdtab_file(fd);
    int result;

    AFTER(file_before_unlogged, fd);
    result = real(fd, length);
    if (file != NULL && result == 0)
        file_resized(file, fd);
    return result;
}

EXPORT int ftruncate(int fd, off_t length)
{
    return resize(real_ftruncate, fd, length);
}

EXPORT int ftruncate64(int fd, off_t length)
{
    return resize(real_ftruncate64, fd, length);
}

/*
 * NumPy reserves a large array's blocks before it writes them. What makes a file
 * longer waits for the log; what makes holes or shifts bytes is not for a captured
 * file.
 */
static int allocate(int (*real)(int, int, off_t, off_t), int fd, int mode, off_t offset,
                    off_t length)
{
    struct file *file = fdtab_file(fd);
    int result;

    if (file == NULL)
        return real(fd, mode, offset, length);
    if (mode == FALLOC_FL_KEEP_SIZE)
        AFTER(file_reserved_by_program, fd);
    else if (mode == 0)
        AFTER(file_before_unlogged, fd);
    else
        AFTER(file_release, fd);
    result = real(fd, mode, offset, length);
    if (result == 0)
        file_resized(file, fd);
    return result;
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t length)
{
    return allocate(real_fallocate, fd, mode, offset, length);
}

EXPORT int fallocate64(int fd, int mode, off_t offset, off_t length)
{
    return allocate(real_fallocate64, fd, mode, offset, length);
}

/* These return the error. */
static int allocate_posix(int (*real)(int, off_t, off_t), int fd, off_t offset, off_t length)
{
    struct file *file = fdtab_file(fd);
    int error;

    if (file == NULL)
        return real(fd, offset, length);
    error = file_before_unlogged(file, fd);
    if (error == 0)
        error = real(fd, offset, length);
    if (error == 0)
        file_resized(file, fd);
    return error;
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t length)
{
    return allocate_posix(real_posix_fallocate, fd, offset, length);
}

EXPORT int posix_fallocate64(int fd, off_t offset, off_t length)
{
    return allocate_posix(real_posix_fallocate64, fd, offset, length);
}

/* --- mappings and copies inside the kernel --- */

#define MAPPED(fd)                                                                                 \
    do {                                                                                           \
        struct file *file_ = fdtab_file(fd);                                                       \
        int error_;                                                                                \
        if (file_ != NULL && (error_ = file_release(file_, fd)) != 0) {                            \
            errno = error_;                                                                        \
            return MAP_FAILED;                                                                     \
        }                                                                                          \
    } while (0)

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && !(flags & MAP_ANONYMOUS))
        MAPPED(fd);
    return real_mmap(address, length, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && !(flags & MAP_ANONYMOUS))
        MAPPED(fd);
    return real_mmap64(address, length, protection, flags, fd, offset);
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
    AFTER(drain, in);
    AFTER(file_release, out);
    return real_sendfile(out, in, offset, count);
}

EXPORT ssize_t sendfile64(int out, int in, off_t *offset, size_t count)
{
    AFTER(drain, in);
    AFTER(file_release, out);
    return real_sendfile64(out, in, offset, count);
}

EXPORT ssize_t copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t length,
                               unsigned flags)
{
    AFTER(drain, in);
    AFTER(file_release, out);
    return real_copy_file_range(in, in_offset, out, out_offset, length, flags);
}

EXPORT ssize_t splice(int in, off_t *in_offset, int out, off_t *out_offset, size_t length,
                      unsigned flags)
{
    AFTER(drain, in);
    AFTER(file_release, out);
    return real_splice(in, in_offset, out, out_offset, length, flags);
}

/* A descriptor of a captured file that is sent away: whoever gets it may write. 0 or an errno. */
static int give_away(const struct msghdr *message)
{
    if (message->msg_control == NULL || message->msg_controllen == 0)
        return 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL;
         c = CMSG_NXTHDR((struct msghdr *)message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
            struct file *file;
            int fd, error;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (lent(fd))
                lent_end(fd);
            file = fdtab_file(fd);
            error = file != NULL ? file_release(file, fd) : 0;
            if (error != 0)
                return error;
        }
    }
    return 0;
}

EXPORT ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    int error = message != NULL ? give_away(message) : 0;

    if (error != 0) {
        errno = error;
        return -1;
    }
    return real_sendmsg(socket, message, flags);
}

EXPORT int sendmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags)
{
    for (unsigned i = 0; i < count && messages != NULL; i++) {
        int error = give_away(&messages[i].msg_hdr);

        if (error != 0) {
            errno = error;
            return -1;
        }
    }
    return real_sendmmsg(socket, messages, count, flags);
}

/* --- locks: a captured file has more holders than the program knows --- */

EXPORT int flock(int fd, int operation)
{
    AFTER(file_release, fd);
    return real_flock(fd, operation);
}

EXPORT int lockf(int fd, int command, off_t length)
{
    AFTER(file_release, fd);
    file_before_lock(fd);
    return real_lockf(fd, command, length);
}

EXPORT int lockf64(int fd, int command, off_t length)
{
    AFTER(file_release, fd);
    file_before_lock(fd);
    return real_lockf64(fd, command, length);
}

/* Requests of terminals on files (is it one?) are refused by the kernel: they pass. */
EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    long argument;

    va_start(arguments, request);
    argument = va_arg(arguments, long);
    va_end(arguments);
    if ((request & 0xff00) != 'T' << 8)
        AFTER(file_release, fd);
    else if (request == 0x541b) /* FIONREAD */
        AFTER(drain, fd);
    return real_ioctl(fd, request, argument);
}
