/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.c -- writes the lines of log.h
 *
 * Not here: rotation, time stamps, syslog.
 *
 * This runs inside programs that know nothing of it, within hooks of the very
 * calls that it would use: so the kernel is asked directly, nothing is locked
 * and nothing is allocated. The program may close the log's descriptor or reuse
 * its number: the descriptor is compared with the file before each line, and
 * the file is opened again if it is another. Two threads that open it at once
 * do not wait for each other: one keeps its descriptor, the other uses its own
 * for that one line. A write that would raise SIGPIPE or SIGXFSZ must not end a
 * program that did not write itself.
 */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1000
#define HIGH_FD 512 /* programs count their descriptors from below */

static atomic_int threshold = PORTUS_LOG_WARN;
static const char *_Atomic prefix_text = "portus: ";
static atomic_bool stderr_absent, stderr_journal;

static struct {
    atomic_bool named; /* path is set */
    atomic_flag opening;
    atomic_int fd;
    _Atomic uint64_t device, inode; /* of the file behind fd */
    char path[PATH_MAX];
} file = {.opening = ATOMIC_FLAG_INIT, .fd = -1};

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

static bool still_ours(int fd)
{
    uint64_t device, inode;

    return fd >= 0 && identify(fd, &device, &inode) == 0 && device == atomic_load(&file.device) &&
           inode == atomic_load(&file.inode);
}

static int open_high(const char *path)
{
    /* O_NONBLOCK: a FIFO that nobody reads must not stop the program. */
    int fd = syscall(SYS_openat, AT_FDCWD, path,
                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    int high;

    if (fd < 0)
        return -1;
    high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high < 0)
        high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high < 0)
        return fd;
    syscall(SYS_close, fd);
    return high;
}

/* Returns a descriptor to write a line to, or -1; sets *once if it is for one line only. */
static int acquire(bool *once)
{
    uint64_t device, inode;
    int fd = atomic_load(&file.fd);

    *once = false;
    if (still_ours(fd))
        return fd;
    fd = open_high(file.path);
    if (fd < 0)
        return -1;
    *once = true;
    if (identify(fd, &device, &inode) != 0 || atomic_flag_test_and_set(&file.opening))
        return fd;
    if (!still_ours(atomic_load(&file.fd))) {
        atomic_store(&file.device, device);
        atomic_store(&file.inode, inode);
        atomic_store(&file.fd, fd);
        *once = false;
    }
    atomic_flag_clear(&file.opening);
    return fd;
}

/* The kernel's signal sets are one word of 64 bits. */
static uint64_t signal_bit(int number)
{
    return 1ull << (number - 1);
}

static bool write_quietly(int fd, const char *line, size_t length)
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

static void emit(const char *line, size_t length)
{
    bool once;

    if (atomic_load(&file.named)) {
        int fd = acquire(&once);

        if (fd >= 0) {
            bool written = write_quietly(fd, line, length);

            if (once)
                syscall(SYS_close, fd);
            if (written)
                return;
        }
    }
    if (!atomic_load(&stderr_absent))
        write_quietly(STDERR_FILENO, line, length);
}

void portus_log_setup(enum portus_level level, const char *path, const char *prefix)
{
    int saved = errno, fd = atomic_exchange(&file.fd, -1);
    size_t length = path != NULL ? strlen(path) : 0, directory = 0;

    atomic_store(&file.named, false);
    if (still_ours(fd))
        syscall(SYS_close, fd);
    /* A number that is free now may become anything, a checkpoint for one. */
    atomic_store(&stderr_absent, syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) < 0);
    if (path != NULL) {
        /* Made absolute: the program may change its directory before the file is opened. */
        if (path[0] != '/') {
            long size = syscall(SYS_getcwd, file.path, sizeof(file.path));

            if (size > 1 && file.path[0] == '/' && size + length < sizeof(file.path)) {
                directory = size;
                file.path[directory - 1] = '/';
            }
        }
        if (directory + length < sizeof(file.path)) {
            memcpy(file.path + directory, path, length + 1);
            atomic_store(&file.named, true);
        }
    }
    atomic_store(&prefix_text, prefix);
    atomic_store(&threshold, level);
    errno = saved;
}

void portus_log_journal(void)
{
    atomic_store(&stderr_journal, true);
}

bool portus_log_enabled(enum portus_level level)
{
    return (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

void portus_log(enum portus_level level, const char *format, ...)
{
    static const char cut[] = "...";
    static const char priorities[][4] = {"<3>", "<4>", "<6>", "<7>"}; /* of syslog(3) */
    char line[LINE_MAX_BYTES + 1]; /* the newline takes the place of the NUL */
    const char *prefix;
    size_t length, room;
    va_list arguments;
    int saved = errno, wanted;

    if (!portus_log_enabled(level))
        return;
    prefix = atomic_load(&prefix_text);
    length = 0;
    if (atomic_load(&stderr_journal) && !atomic_load(&file.named)) {
        memcpy(line, priorities[level], 3);
        length = 3;
    }
    memcpy(line + length, prefix, strnlen(prefix, LINE_MAX_BYTES / 2));
    length += strnlen(prefix, LINE_MAX_BYTES / 2);
    room = LINE_MAX_BYTES - length;

    va_start(arguments, format);
    wanted = vsnprintf(line + length, room + 1, format, arguments);
    va_end(arguments);
    if (wanted > 0 && (size_t)wanted > room) {
        memcpy(line + LINE_MAX_BYTES - strlen(cut), cut, strlen(cut));
        length = LINE_MAX_BYTES;
    } else if (wanted > 0) {
        length += wanted;
    }
    /* Names of files are anyone's: no second line, no escape sequences. */
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    emit(line, length);
    errno = saved;
}
