/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sink.c -- a file that several processes append lines to: the log, the trace
 *
 * This runs inside programs that know nothing of it, within hooks of the very
 * calls that it would use: so the kernel is asked directly, nothing is locked
 * and nothing is allocated. The program may close the file's descriptor or reuse
 * its number: the descriptor is compared with the file before each line, and
 * the file is opened again if it is another. Two threads that open it at once
 * do not wait for each other: one keeps its descriptor, the other uses its own
 * for that one line. A write that would raise SIGPIPE or SIGXFSZ must not end a
 * program that did not write itself.
 */
#include "common/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIGH_FD 512 /* programs count their descriptors from below */
#define HEAD_MS 100

/* struct stat has the kernel's layout wherever SYS_fstat exists and long is 64 bits. */
static int identify(int fd, uint64_t *device, uint64_t *inode)
{
    struct stat status;

    if (syscall(SYS_fstat, fd, &status) != 0)
        return -1;
    *device = status.st_dev;
    *inode = status.st_ino;
    return 0;
}

static bool still_ours(const struct portus_sink *sink, int fd)
{
    uint64_t device, inode;

    return fd >= 0 && identify(fd, &device, &inode) == 0 && device == atomic_load(&sink->device) &&
           inode == atomic_load(&sink->inode);
}

/* The first of all processes writes it; who cannot wait for that goes on without. */
static void begin(int fd, const char *head)
{
    struct stat status;

    if (syscall(SYS_fstat, fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > 0)
        return;
    for (unsigned tries = 0; syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK || tries == HEAD_MS)
            return;
        syscall(SYS_poll, NULL, 0, 1);
    }
    if (syscall(SYS_fstat, fd, &status) == 0 && status.st_size == 0)
        portus_write_quietly(fd, head, strlen(head));
    syscall(SYS_flock, fd, LOCK_UN);
}

static int open_high(const struct portus_sink *sink)
{
    /* O_NONBLOCK: a FIFO that nobody reads must not stop the program. */
    int fd = syscall(SYS_openat, AT_FDCWD, sink->path,
                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    int high;

    if (fd < 0)
        return -1;
    if (sink->head != NULL)
        begin(fd, sink->head);
    high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high < 0)
        high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high < 0)
        return fd;
    syscall(SYS_close, fd);
    return high;
}

/* Returns a descriptor to write a line to, or -1; sets *once if it is for one line only. */
static int acquire(struct portus_sink *sink, bool *once)
{
    uint64_t device, inode;
    int fd = atomic_load(&sink->fd);

    *once = false;
    if (still_ours(sink, fd))
        return fd;
    fd = open_high(sink);
    if (fd < 0)
        return -1;
    *once = true;
    if (identify(fd, &device, &inode) != 0 || atomic_flag_test_and_set(&sink->opening))
        return fd;
    if (!still_ours(sink, atomic_load(&sink->fd))) {
        atomic_store(&sink->device, device);
        atomic_store(&sink->inode, inode);
        atomic_store(&sink->fd, fd);
        *once = false;
    }
    atomic_flag_clear(&sink->opening);
    return fd;
}

/* The kernel's signal sets are one word of 64 bits. */
static uint64_t signal_bit(int number)
{
    return 1ull << (number - 1);
}

bool portus_write_quietly(int fd, const char *line, size_t length)
{
    uint64_t quiet = signal_bit(SIGPIPE) | signal_bit(SIGXFSZ), before = 0, pending = 0;
    const struct timespec at_once = {0, 0};
    long written;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &quiet, &before, sizeof(quiet));
    syscall(SYS_rt_sigpending, &pending, sizeof(pending));
    written = syscall(SYS_write, fd, line, length);
    /* Take back what this write raised, never what waited already. */
    quiet &= ~pending;
    if (written < 0 && (errno == EPIPE || errno == EFBIG) && quiet != 0)
        syscall(SYS_rt_sigtimedwait, &quiet, NULL, &at_once, sizeof(quiet));
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    return written >= 0;
}

bool portus_sink_named(const struct portus_sink *sink)
{
    return atomic_load(&sink->named);
}

bool portus_sink_write(struct portus_sink *sink, const char *line, size_t length)
{
    bool once, written;
    int fd;

    if (!portus_sink_named(sink))
        return false;
    fd = acquire(sink, &once);
    if (fd < 0)
        return false;
    written = portus_write_quietly(fd, line, length);
    if (once)
        syscall(SYS_close, fd);
    return written;
}

void portus_sink_set(struct portus_sink *sink, const char *path)
{
    int fd = atomic_exchange(&sink->fd, -1);
    size_t length = path != NULL ? strlen(path) : 0, directory = 0;

    atomic_store(&sink->named, false);
    if (still_ours(sink, fd))
        syscall(SYS_close, fd);
    if (path == NULL)
        return;
    /* Made absolute: the program may change its directory before the file is opened. */
    if (path[0] != '/') {
        long size = syscall(SYS_getcwd, sink->path, sizeof(sink->path));

        if (size > 1 && sink->path[0] == '/' && size + length < sizeof(sink->path)) {
            directory = size;
            sink->path[directory - 1] = '/';
        }
    }
    if (directory + length < sizeof(sink->path)) {
        memcpy(sink->path + directory, path, length + 1);
        atomic_store(&sink->named, true);
    }
}
