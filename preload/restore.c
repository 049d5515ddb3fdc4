/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore.c -- PORTUS_RESTORE: files that were left short are completed when they are opened
 *
 * portusctl complete has the rules and does the work, as a process of its own: it reads the
 * pool, which needs libraries, may be damaged and may belong to somebody else's portusd,
 * and none of that is for a program's address space. Here is only when to ask: a checkpoint
 * is opened, and its path is in the list of files that are short, which is read once
 * a minute at most. That list is nearly always empty.
 *
 * A file that is live, or whose lease is being waited for, has been through its open when we
 * look: it is whole, or somebody writes it, which portusctl sees and leaves it alone.
 *
 * Waits for portusctl, with signals as they are, but never for ever: without a word
 * from it the file is read as it is. Whatever it says, the program gets what is at the path.
 */
#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/descriptor.h"
#include "client/spawn.h"
#include "common/futex.h"
#include "common/hash.h"
#include "common/listing.h"
#include "common/log.h"
#include "format/sniff.h"
#include "lent.h"
#include "shim.h"

#define LIST_NS 5000000000ull /* for portusctl to look at the pool and the files in it */
#define LIST_AGE_NS 60000000000ull
#define COMPLETE_NS 20000000000ull
#define COMPLETE_RATE 20 /* bytes a microsecond, in addition */
#define WAIT_MS 10
#define HELD_MS 600000
#define SHORT 1024 /* files that are short at a time */

_Atomic uint32_t restore_state;

static _Atomic uint32_t held; /* a lock of all below: see enter */
static struct {
    uint64_t path; /* hash of it, or of what the file is (listing_text) */
    uint64_t size; /* that it should have */
} entries[SHORT];
static unsigned count, strays; /* of those that are not at their paths */
static uint64_t asked[SHORT];  /* hashes of path and inode, the last ones */
static unsigned asked_count;
static _Atomic uint64_t read_at; /* when the list was read; 0: never */
static _Atomic bool empty;

/* Of this thread: a signal handler may open files while it waits. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

bool restore_on(void)
{
    extern char **environ;
    const char *text;

    if (atomic_load(&restore_state) != RESTORE_UNKNOWN)
        return atomic_load(&restore_state) == RESTORE_ON;
    if (environ == NULL)
        return false; /* too early */
    text = getenv("PORTUS_RESTORE");
    if (text == NULL || text[0] == '\0' || strcmp(text, "off") == 0) {
        atomic_store(&restore_state, RESTORE_OFF);
        return false;
    }
    if (inside)
        return false;
    inside = true;
    if (shim_on() && shim.env.restore != PORTUS_RESTORE_OFF) {
        uint32_t unknown = RESTORE_UNKNOWN;
        bool stored = shim.env.store[0] != '\0';

        if (atomic_compare_exchange_strong(&restore_state, &unknown,
                                           stored ? RESTORE_ON : RESTORE_OFF) &&
            !stored)
            log_warn("PORTUS_RESTORE needs PORTUS_STORE: files are read as they are");
    } else if (shim_known()) {
        atomic_store(&restore_state, RESTORE_OFF);
    }
    inside = false;
    return atomic_load(&restore_state) == RESTORE_ON;
}

/*
 * Not for ever: signals are not blocked while it is held, and a handler that jumps away leaves
 * it held. False: then nothing is completed any more.
 */
static bool enter(void)
{
    struct timespec pause = {.tv_nsec = WAIT_MS * 1000000};

    for (unsigned tries = 0; tries < HELD_MS / WAIT_MS; tries++) {
        uint32_t no = 0;

        if (atomic_compare_exchange_strong(&held, &no, 1))
            return true;
        syscall(SYS_nanosleep, &pause, NULL);
    }
    atomic_store(&restore_state, RESTORE_OFF);
    return false;
}

static void leave(void)
{
    atomic_store(&held, 0);
}

void restore_forget(void)
{
    if (atomic_load(&held) == 0)
        return; /* what the parent knows is right for the child */
    atomic_store(&held, 0);
    count = strays = 0;
    atomic_store(&read_at, 0);
}

/* --- portusctl, and what it says --- */

/* Starts it with its output at *from. 0 or a negative errno. */
static int start(const char *const *arguments, bool errors, int *from)
{
    struct guard guard = shim_guard();
    int ends[2], error = 0;

    if (syscall(SYS_pipe2, ends, O_CLOEXEC) < 0)
        error = -errno;
    if (error == 0) {
        ends[0] = portus_descriptor_raise(ends[0]);
        ends[1] = portus_descriptor_raise(ends[1]);
        error = ends[0] < 0 || ends[1] < 0 ? -EMFILE : 0;
        if (error == 0)
            error = portus_spawn(arguments, shim.env.job, ends[1], errors ? ends[1] : -1);
        portus_descriptor_close(&ends[1]);
        if (error != 0)
            portus_descriptor_close(&ends[0]);
    }
    shim_unguard(&guard);
    *from = error == 0 ? ends[0] : -1;
    return error;
}

static void finish(int *from)
{
    struct guard guard = shim_guard();

    portus_descriptor_close(from);
    shim_unguard(&guard);
}

/* Up to length bytes of what it says next; 0: it has ended; -ETIMEDOUT. */
static long hear(int from, char *to, size_t length, uint64_t until)
{
    for (;;) {
        struct pollfd event = {.fd = from, .events = POLLIN};
        uint64_t now = portus_now();
        struct timespec left = {.tv_sec = (time_t)((until - now) / 1000000000),
                                .tv_nsec = (long)((until - now) % 1000000000)};
        long got;

        if (now >= until)
            return -ETIMEDOUT;
        /* Raw, both: no place where a thread may be cancelled. */
        got = syscall(SYS_ppoll, &event, 1, &left, NULL, 0);
        if (got > 0)
            got = syscall(SYS_read, from, to, length);
        else if (got == 0)
            continue;
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return -errno;
    }
}

/* portusctl, beside the agent; a static buffer. */
static const char *program(void)
{
    static char path[PORTUS_ENV_TEXT + 16];
    const char *agent = shim_agent(), *slash = strrchr(agent, '/');

    if (path[0] == '\0')
        snprintf(path, sizeof(path), "%.*sportusctl", slash != NULL ? (int)(slash + 1 - agent) : 0,
                 agent);
    return path;
}

/* --- the list --- */

/* One entry, "SIZE PATH" or "SIZE @WHAT". False: it is none. */
static bool note(const char *entry)
{
    uint64_t size = 0;
    const char *c = entry;

    for (; *c >= '0' && *c <= '9'; c++)
        size = 10 * size + (uint64_t)(*c - '0');
    if (c == entry || c[0] != ' ' || (c[1] != '/' && c[1] != '@'))
        return false;
    if (count == SHORT)
        return true; /* of so many a person should know */
    entries[count].path = portus_hash(PORTUS_HASH_EMPTY, c + 1, strlen(c + 1));
    entries[count++].size = size;
    strays += c[1] == '@';
    return true;
}

/* Reads entries to the empty one at the end. 0 or a negative errno. */
static int read_entries(int from, uint64_t until)
{
    static char text[PATH_MAX + 64];
    size_t length = 0;
    long got;

    while ((got = hear(from, text + length, sizeof(text) - length, until)) > 0) {
        char *at = text, *end = text + length + got, *stop;

        while ((stop = memchr(at, '\0', (size_t)(end - at))) != NULL) {
            if (stop == at)
                return 0;
            if (!note(at))
                return -EPROTO;
            at = stop + 1;
        }
        length = (size_t)(end - at);
        memmove(text, at, length);
        if (length == sizeof(text))
            return -EPROTO;
    }
    return got < 0 ? (int)got : -EPROTO;
}

static void refuse(const char *why)
{
    log_warn("%s: what is short in there cannot be told: %s: files are read as they are",
             shim.env.store, why);
    atomic_store(&restore_state, RESTORE_OFF);
}

static void read_list(void)
{
    const char *arguments[] = {program(), "complete", "--store", shim.env.store, "--list", NULL};
    int from, error = start(arguments, false, &from);

    if (error != 0) {
        refuse(error == -ENOENT ? "no portusctl is beside portus-agent" : strerror(-error));
        return;
    }
    count = strays = 0;
    error = read_entries(from, portus_now() + LIST_NS);
    finish(&from);
    if (error != 0) {
        count = strays = 0;
        refuse(error == -EPROTO      ? "portusctl complete --list says why"
               : error == -ETIMEDOUT ? "portusctl takes too long"
                                     : strerror(-error));
    }
    atomic_store(&read_at, portus_now());
    atomic_store(&empty, count == 0);
}

/* --- a file --- */

static bool fresh(void)
{
    uint64_t at = atomic_load(&read_at);

    return at != 0 && portus_now() - at < LIST_AGE_NS;
}

static bool path_of(int fd, char path[PATH_MAX])
{
    char link[40];
    long length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    if (length <= 0 || length == PATH_MAX - 1)
        return false;
    path[length] = '\0';
    return path[0] == '/';
}

/* Whether it may be a checkpoint, or was going to be one; and its path. */
static bool candidate(int fd, char path[PATH_MAX], uint64_t *inode)
{
    struct statx status;
    char head[16];
    long length;

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE | STATX_INO, &status) <
            0 ||
        !S_ISREG(status.stx_mode) || !path_of(fd, path) || portus_env_match(shim.env.exclude, path))
        return false;
    *inode = status.stx_ino;
    if (status.stx_size == 0 || portus_env_match(shim.env.match, path))
        return true;
    length = syscall(SYS_pread64, fd, head, sizeof(head), 0);
    return length > 0 && portus_sniff(head, (size_t)length) != NULL;
}

static bool listed(const char *text, uint64_t *size)
{
    uint64_t hash = portus_hash(PORTUS_HASH_EMPTY, text, strlen(text));

    for (unsigned i = 0; i < count; i++)
        if (entries[i].path == hash) {
            *size = entries[i].size;
            return true;
        }
    return false;
}

/* Whether it is in the list, which is read if it is old. */
static bool is_short(int fd, const char *path, uint64_t *size)
{
    struct listing_entry what;
    char text[LISTING_TEXT];

    if (!fresh())
        read_list();
    if (listed(path, size))
        return true;
    if (strays == 0 || listing_handle(fd, &what) != 0)
        return false;
    listing_text(&what, text);
    return listed(text, size);
}

/* Whether nobody has asked about this very file. */
static bool first(const char *path, uint64_t inode)
{
    uint64_t hash = portus_hash(PORTUS_HASH_EMPTY, path, strlen(path));

    hash = portus_hash(hash, (const char *)&inode, sizeof(inode));
    for (unsigned i = 0; i < SHORT && i < asked_count; i++)
        if (asked[i] == hash)
            return false;
    asked[asked_count++ % SHORT] = hash;
    return true;
}

/* Has it completed, and passes on what portusctl says. */
static void ask(const char *path, uint64_t size)
{
    const char *arguments[] = {program(), "complete", "--store", shim.env.store, "--", path, NULL};
    static const char prefix[] = "portusctl: complete: ";
    char text[1000];
    size_t length = 0;
    uint64_t until = portus_now() + COMPLETE_NS + size / COMPLETE_RATE * 1000;
    int from, error;
    long got;
    char *line, *rest;

    if (shim.env.mode == PORTUS_REPORT) {
        log_warn("%s is not as its newest version in %s: PORTUS=report leaves it alone", path,
                 shim.env.store);
        return;
    }
    error = start(arguments, true, &from);
    got = error;
    while (error == 0 && (got = hear(from, text + length, sizeof(text) - 1 - length, until)) > 0) {
        length += (size_t)got;
        if (length == sizeof(text) - 1)
            break;
    }
    if (error == 0)
        finish(&from);
    text[length] = '\0';
    if (got < 0)
        log_warn("%s is short, and was not completed: %s: read as it is", path,
                 got == -ETIMEDOUT ? "portusctl takes too long" : strerror((int)-got));
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        log_warn("%s",
                 strncmp(line, prefix, sizeof(prefix) - 1) == 0 ? line + sizeof(prefix) - 1 : line);
}

struct stream {
    int from;
    uint64_t until;
};

static long next(void *argument, char *to, size_t length)
{
    struct stream *stream = argument;

    return hear(stream->from, to, length, stream->until);
}

/* Reads of fd come from the pool, if portusctl says that they can. */
static void borrow(int fd, const char *path)
{
    const char *arguments[] = {program(),   "complete", "--store", shim.env.store,
                               "--extents", "--",       path,      NULL};
    struct stream stream = {.until = portus_now() + LIST_NS};

    if (start(arguments, false, &stream.from) != 0)
        return;
    if (lent_begin(fd, shim.env.store, next, &stream))
        log_debug("%s is read from %s", path, shim.env.store);
    finish(&stream.from);
}

/* Makes fd a descriptor of what is at path now, if that is another file and no smaller. */
static void exchange(int fd, const char *path)
{
    int flags = (int)syscall(SYS_fcntl, fd, F_GETFL, 0);
    int closes = (int)syscall(SYS_fcntl, fd, F_GETFD, 0);
    struct statx before, now;
    int other;

    if (flags < 0 || closes < 0)
        return;
    other = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, 0);
    if (other < 0)
        return;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_INO, &before) == 0 &&
        syscall(SYS_statx, other, "", AT_EMPTY_PATH, STATX_SIZE | STATX_TYPE | STATX_INO, &now) ==
            0 &&
        S_ISREG(now.stx_mode) &&
        (now.stx_size > before.stx_size ||
         (now.stx_size == before.stx_size && now.stx_ino != before.stx_ino)))
        syscall(SYS_dup3, other, fd, closes & FD_CLOEXEC ? O_CLOEXEC : 0);
    syscall(SYS_close, other);
}

static bool size_of(int fd, uint64_t *size)
{
    struct statx status;

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &status) < 0)
        return false;
    *size = status.stx_size;
    return true;
}

void restore_opened(int fd)
{
    char path[PATH_MAX];
    int saved = errno;
    uint64_t inode, size;

    if (fd < 0 || inside || !shim_own())
        return;
    if (fresh() && atomic_load(&empty) && shim.env.restore == PORTUS_RESTORE_AUTO)
        return;
    inside = true;
    /* Held while it is completed: another thread that opens it gets it whole, too. */
    if (candidate(fd, path, &inode) && enter()) {
        if (is_short(fd, path, &size)) {
            if (first(path, inode))
                ask(path, size);
            exchange(fd, path);
        } else if (shim.env.restore == PORTUS_RESTORE_READ && shim.env.mode != PORTUS_REPORT &&
                   size_of(fd, &size) && lent_wanted(fd, size)) {
            borrow(fd, path);
        }
        leave();
    }
    inside = false;
    errno = saved;
}
