/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptors.h -- calls.c's calls on descriptors: how they come and go, bytes, mappings
 *
 * Not done, as it differs for good reasons: O_NONBLOCK (a live file gives its opener EAGAIN,
 * see Limits in docs/design.md). Not called: O_DIRECT, which is never captured.
 */
#ifndef TESTS_FUZZ_DESCRIPTORS_H
#define TESTS_FUZZ_DESCRIPTORS_H

#include "others.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#define MAPS 2

static struct map {
    char *at;
    size_t length;
} maps[MAPS];

static void replace(int *fd, int other)
{
    if (*fd >= 0 && other >= 0 && *fd != other)
        CALL(close(*fd), "close(%d)", *fd);
    if (other >= 0)
        *fd = other;
}

static void do_open(void)
{
    static const int access_modes[] = {O_WRONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDONLY};
    static const int more[] = {O_CREAT | O_TRUNC,
                               O_CREAT | O_TRUNC,
                               O_CREAT | O_TRUNC,
                               O_CREAT,
                               O_TRUNC,
                               O_CREAT | O_EXCL,
                               O_CREAT | O_APPEND,
                               O_APPEND,
                               0,
                               O_CREAT | O_TRUNC | O_APPEND,
                               O_CREAT | O_TRUNC | O_SYNC,
                               O_NOFOLLOW,
                               O_CREAT | O_TRUNC | O_DSYNC,
                               O_DIRECTORY,
                               O_PATH};
    int flags = ONE_OF(access_modes) | ONE_OF(more) | (pick(4) ? 0 : O_CLOEXEC), *fd = slot();
    const char *path = name();

    if (*fd >= 0 && pick(4))
        CALL(close(*fd), "close(%d)", *fd), *fd = -1;
    replace(fd, (int)(pick(2) ? CALL(open(path, flags, 0644), "open(%s, %o)", path, flags)
                              : CALL(openat(AT_FDCWD, path, flags, 0600), "openat(%s, %o)", path,
                                     flags)));
}

/* As most programs save. */
static void do_create(void)
{
    const char *path = name();
    int *fd = slot(), flags = O_CREAT | O_TRUNC | (pick(2) ? O_RDWR : O_WRONLY);

    if (*fd >= 0)
        CALL(close(*fd), "close(%d)", *fd), *fd = -1;
    replace(fd, (int)CALL(open(path, flags, 0644), "open(%s, %o)", path, flags));
    for (size_t i = pick(4), n; i > 0; i--)
        n = length(), CALL(write(*fd, source(), n), "write(%d, %zu)", *fd, n);
}

static void do_close(void)
{
    int *fd = slot();

    CALL(close(*fd), "close(%d)", *fd);
    *fd = -1;
}

static void do_dup(void)
{
    int fd = descriptor(), *to = slot(), other = pick(3) ? *slot() : descriptor(), high;

    switch (pick(6)) {
    case 0:
        replace(to, (int)CALL(dup(fd), "dup(%d)", fd));
        break;
    case 1:
        CALL(dup2(fd, other), "dup2(%d, %d)", fd, other);
        break;
    case 2:
        CALL(dup3(fd, other, O_CLOEXEC), "dup3(%d, %d)", fd, other);
        break;
    case 3:
        high = 20 + (int)pick(20);
        replace(to, (int)CALL(dup2(fd, high), "dup2(%d, %d)", fd, high));
        break;
    default:
        high = (int)pick(40);
        replace(to, (int)CALL(fcntl(fd, pick(2) ? F_DUPFD : F_DUPFD_CLOEXEC, high),
                              "fcntl(%d, F_DUPFD, %d)", fd, high));
    }
}

static void do_flags(void)
{
    int fd = descriptor(), flags = pick(2) ? O_APPEND : 0;

    CALL(fcntl(fd, F_GETFL), "fcntl(%d, F_GETFL)", fd);
    if (pick(2))
        CALL(fcntl(fd, F_SETFL, flags), "fcntl(%d, F_SETFL, %o)", fd, flags);
    CALL(fcntl(fd, F_GETFD), "fcntl(%d, F_GETFD)", fd);
}

static void do_close_range(void)
{
    unsigned first = 3 + (unsigned)pick(20), last = pick(4) ? first + (unsigned)pick(3) : ~0u;
    int flags = pick(3) ? 0 : (int)CLOSE_RANGE_CLOEXEC;

    if (last == ~0u && flags == 0)
        dismiss_all(); /* they would go by themselves, at some time */
    CALL(close_range(first, last, flags), "close_range(%u, %u, %d)", first, last, flags);
}

/* --- bytes --- */

static void do_write(void)
{
    int fd = descriptor();
    size_t n = length();
    off_t at;

    if (pick(2)) {
        CALL(write(fd, source(), n), "write(%d, %zu)", fd, n);
    } else {
        at = place();
        CALL(pwrite(fd, source(), n, at), "pwrite(%d, %zu, %lld)", fd, n, (long long)at);
    }
}

static void do_vectors(void)
{
    static const int flags[] = {0, 0, 0, RWF_DSYNC, RWF_SYNC, RWF_APPEND, 1 << 30};
    int fd = descriptor(), count = (int)pick(6), flag = ONE_OF(flags);
    struct iovec vector[6];
    size_t total = 0;
    off_t at = place();

    for (int i = 0; i < count; i++) {
        vector[i] = (struct iovec){source(), pick(5) ? length() : 0};
        total += vector[i].iov_len;
    }
    switch (pick(3)) {
    case 0:
        CALL(writev(fd, vector, count), "writev(%d, %d of %zu)", fd, count, total);
        break;
    case 1:
        CALL(pwritev(fd, vector, count, at), "pwritev(%d, %d of %zu, %lld)", fd, count, total,
             (long long)at);
        break;
    default:
        CALL(pwritev2(fd, vector, count, at, flag), "pwritev2(%d, %d of %zu, %lld, %x)", fd, count,
             total, (long long)at, flag);
    }
}

/* What the kernel refuses, and what is none. */
static void do_odd(void)
{
    int fd = descriptor();
    struct iovec vector[2] = {{base, SIZE_MAX / 2}, {base, 10}}, wrong = {(void *)8, 100};
    size_t k = 1 + pick(MIB), n = k + 1 + pick(2 * MIB);
    static void *volatile nowhere = (void *)8;

    switch (pick(9)) {
    case 0:
        CALL(write(fd, nowhere, pick(2) ? 100 : 2 * MIB), "write(%d, nowhere)", fd);
        break;
    case 1:
        CALL(write(fd, base, 0), "write(%d, 0)", fd);
        break;
    case 2:
        CALL(writev(fd, vector, 2), "writev(%d, too much)", fd);
        break;
    case 3:
        CALL(writev(fd, vector, (int)pick(2) - 1), "writev(%d, none)", fd);
        break;
    case 7:
        CALL(write(fd, edge + MIB - k, n), "write(%d, %zu of %zu)", fd, k, n);
        break;
    case 8:
        CALL(pwrite(fd, edge + MIB - k, n, 0), "pwrite(%d, %zu of %zu)", fd, k, n);
        break;
    case 4:
        CALL(pwritev(fd, &wrong, 1, 0), "pwritev(%d, nowhere)", fd);
        break;
    case 5:
        CALL(writev(fd, nowhere, 2), "writev(%d, no vectors)", fd);
        break;
    default:
        CALL(read(fd, nowhere, 10), "read(%d, nowhere)", fd);
    }
}

static void do_read(void)
{
    int fd = descriptor();
    size_t n = length();
    off_t at = place();
    struct iovec vector[2] = {{room, n / 2}, {room + n / 2, n - n / 2}};

    switch (pick(4)) {
    case 0:
        said_bytes(CALL(read(fd, room, n), "read(%d, %zu)", fd, n));
        break;
    case 1:
        said_bytes(CALL(readv(fd, vector, 2), "readv(%d, %zu)", fd, n));
        break;
    case 2:
        said_bytes(CALL(preadv(fd, vector, 2, at), "preadv(%d, %zu, %lld)", fd, n, (long long)at));
        break;
    default:
        said_bytes(CALL(pread(fd, room, n, at), "pread(%d, %zu, %lld)", fd, n, (long long)at));
    }
}

/*
 * Where holes are is the file system's to say, and depends on what is in its cache: only that
 * there is an end is the same.
 */
static void do_seek(void)
{
    int fd = descriptor(), whence = (int)pick(4);
    off_t at = pick(3) ? place() : -(off_t)length();

    if (whence == 3)
        CALL(lseek(fd, 0, SEEK_HOLE) >= 0 && lseek(fd, 0, SEEK_SET) == 0, "lseek(%d, SEEK_HOLE)",
             fd);
    else
        CALL(lseek(fd, at, whence), "lseek(%d, %lld, %d)", fd, (long long)at, whence);
    CALL(lseek(fd, 0, SEEK_CUR), "lseek(%d, 0, SEEK_CUR)", fd);
}

static void do_resize(void)
{
    static const int modes[] = {0,
                                FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_ZERO_RANGE,
                                FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_COLLAPSE_RANGE,
                                FALLOC_FL_INSERT_RANGE};
    int fd = descriptor(), mode = ONE_OF(modes);
    const char *path = name();
    off_t at = place(), n = pick(9) ? (off_t)length() : 0;

    if (mode == FALLOC_FL_COLLAPSE_RANGE || mode == FALLOC_FL_INSERT_RANGE)
        at &= ~4095ll, n &= ~4095ll;
    switch (pick(5)) {
    case 0:
    case 1:
        CALL(ftruncate(fd, at), "ftruncate(%d, %lld)", fd, (long long)at);
        break;
    case 2:
        CALL(truncate(path, at), "truncate(%s, %lld)", path, (long long)at);
        break;
    case 3:
        CALL(fallocate(fd, mode, at, n), "fallocate(%d, %d, %lld, %lld)", fd, mode, (long long)at,
             (long long)n);
        break;
    default:
        CALL(posix_fallocate(fd, at, n), "posix_fallocate(%d, %lld, %lld)", fd, (long long)at,
             (long long)n);
    }
}

static void do_sync(void)
{
    int fd = descriptor(), here = fd;

    switch (pick(5)) {
    case 0:
        CALL(fsync(fd), "fsync(%d)", fd);
        break;
    case 1:
        CALL(fdatasync(fd), "fdatasync(%d)", fd);
        break;
    case 2:
        CALL(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE), "sync_file_range(%d)", fd);
        break;
    case 3:
        here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CALL(fsync(here), "fsync of the directory");
        close(here);
        break;
    default:
        CALL(ioctl(fd, FIONREAD, &here), "ioctl(%d, FIONREAD)", fd);
        said(here, 0, "  of it");
    }
}

/* The kernel may copy less than it is told, as its page cache stands: to the end. */
static void do_copy(void)
{
    int in = descriptor(), out = descriptor(), ends[2];
    off_t at = pick(2) ? place() : 0, to = pick(2) ? place() : 0;
    bool named = pick(2), placed = pick(2);
    size_t n = length(), done = 0;
    ssize_t got = 0, put = 0;
    int way = (int)pick(3);

    check(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0); /* a stale number may be an end */
    errno = 0;
    while (done < n) {
        if (way == 0) {
            got = sendfile(out, in, named ? &at : NULL, n - done);
        } else if (way == 1) {
            got = copy_file_range(in, named ? &at : NULL, out, placed ? &to : NULL, n - done, 0);
        } else {
            got = splice(in, named ? &at : NULL, ends[1], NULL, n - done < 65536 ? n - done : 65536,
                         0);
            for (ssize_t left = got; left > 0; left -= put)
                if ((put = splice(ends[0], NULL, out, placed ? &to : NULL, (size_t)left, 0)) <= 0) {
                    got = put;
                    break;
                }
        }
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    said((long long)done, errno, "%s(%d, %d, %zu) last %d",
         way == 0   ? "sendfile"
         : way == 1 ? "copy_file_range"
                    : "splice",
         in, out, n, got > 0 ? 1 : (int)got);
    close(ends[0]);
    close(ends[1]);
}

static sigjmp_buf beyond_end;

static void on_bus_error(int signal)
{
    siglongjmp(beyond_end, signal);
}

static void do_map(void)
{
    struct map *map = &ONE_OF(maps);
    int fd = descriptor(), protection = pick(3) ? PROT_READ | PROT_WRITE : PROT_READ;
    int sharing = pick(4) ? MAP_SHARED : MAP_PRIVATE, out = descriptor();
    size_t n = length();

    if (map->at == NULL) {
        errno = 0;
        map->at = mmap(NULL, n, protection, sharing, fd, 0);
        map->length = n;
        said(map->at != MAP_FAILED, errno, "mmap(%zu, %d, %d, %d)", n, protection, sharing, fd);
        if (map->at == MAP_FAILED)
            map->at = NULL;
        return;
    }
    if (n > map->length)
        n = map->length;
    switch (pick(5)) {
    case 0:
        if (sigsetjmp(beyond_end, 1) == 0)
            said(1, 0, "  bytes of a map %016llx", hash(map->at, n));
        else
            said(0, 0, "  bytes of a map: SIGBUS");
        break;
    case 1: /* a file is the source, maybe beyond its end */
        CALL(write(out, map->at, n), "write(%d, a map, %zu)", out, n);
        break;
    case 2:
        if (sigsetjmp(beyond_end, 1) == 0 && mprotect(map->at, map->length, protection) == 0 &&
            protection & PROT_WRITE)
            for (size_t i = pick(4096); i < n; i += 1 + pick(40000))
                map->at[i] ^= (char)draw();
        CALL(msync(map->at, map->length, MS_SYNC), "msync");
        break;
    default:
        CALL(munmap(map->at, map->length), "munmap");
        map->at = NULL;
    }
}

/* Threads in places of their own: in whatever order they come, the bytes are the same. */
struct part {
    int fd;
    const char *from;
    size_t length;
    off_t at;
    ssize_t result;
};

static void *part(void *argument)
{
    struct part *p = argument;

    p->result = pwrite(p->fd, p->from, p->length, p->at);
    return NULL;
}

static void do_threads(void)
{
    struct part parts[3];
    pthread_t threads[3];
    int fd = descriptor();

    for (int i = 0; i < 3; i++)
        parts[i] = (struct part){fd, source(), length(), (off_t)(i * 4 * MIB), 0};
    if (fcntl(fd, F_GETFL) & O_APPEND) /* also where there is none: -1 */
        return;
    for (int i = 0; i < 3; i++)
        check(pthread_create(&threads[i], NULL, part, &parts[i]) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        said(parts[i].result, 0, "pwrite of a thread(%d, %zu)", fd, parts[i].length);
    }
}

#endif
