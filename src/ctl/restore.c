// SPDX-License-Identifier: BSD-3-Clause
/*
 * restore.c -- portusctl restore: files come back from a pool
 *
 * A file is written beside its place under another name, synced, and renamed: so at its
 * name stands at any moment what was there, or all of the version. What is there is
 * only replaced if it is the beginning of the version, as a killed job leaves it, also with
 * zeros in place of some bytes, as a power cut leaves what had its size before its bytes; or
 * with --force; and never if somebody is writing it: a read lease on it tells, and is
 * given up as soon as anybody wants to.
 *
 * portusctl complete (complete.c) decides by itself what is to be done, and has it done here.
 */
#include "ctl/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/address.h"
#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/names.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "store/remote.h"

#define PIECE (1u << 20)

static struct {
    struct pool *pool;
    const char *command;
    struct bar bar;
    uint64_t done, left;
    int stands; /* what is at the path, or -1 */
    bool leased, force;
    bool partly;               /* some of what was asked for cannot be had */
    const struct stat *judged; /* what is there must still be this, and must be leased; or NULL */
    char piece[PIECE], there[PIECE];
} run;

static char half[PATH_MAX + 32]; /* the new file, while it has that name */

/* Told to end: what is half done goes, too. */
static void leave(int signal_number)
{
    if (half[0] != '\0')
        unlink(half);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void restore_begin(struct pool *pool, const char *command, bool force)
{
    run.pool = pool;
    run.command = command;
    run.force = force;
    signal(SIGIO, SIG_IGN);   /* of the leases: they are asked */
    signal(SIGXFSZ, SIG_IGN); /* the write fails */
    signal(SIGINT, leave);
    signal(SIGTERM, leave);
    signal(SIGHUP, leave);
    bar_start(&run.bar);
}

void restore_expect(uint64_t bytes)
{
    run.done = 0;
    run.left = bytes;
}

static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST) {
            int error = -errno;
            *slash = '/';
            return error;
        }
        *slash = '/';
    }
    return 0;
}

enum standing { MISSING, SAME, PART, OTHER };

/* Whether nobody has opened what is there for writing since it was compared. */
static bool untouched(const char *path)
{
    struct stat status, there;

    if (run.stands < 0)
        return true;
    return (!run.leased || fcntl(run.stands, F_GETLEASE) == F_RDLCK) &&
           fstat(run.stands, &status) == 0 && lstat(path, &there) == 0 &&
           status.st_dev == there.st_dev && status.st_ino == there.st_ino;
}

static bool as_judged(const struct stat *status)
{
    const struct stat *judged = run.judged;

    return status->st_dev == judged->st_dev && status->st_ino == judged->st_ino &&
           status->st_size == judged->st_size && status->st_mtim.tv_sec == judged->st_mtim.tv_sec &&
           status->st_mtim.tv_nsec == judged->st_mtim.tv_nsec;
}

/* Opens what stands at path, to be compared and kept an eye on. 0 or a negative errno. */
static int watch(const char *path)
{
    struct stat status;

    run.leased = false;
    run.stands = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (run.stands < 0)
        return errno == EAGAIN ? -EBUSY : -errno;
    if (fstat(run.stands, &status) < 0 || !S_ISREG(status.st_mode))
        return -EINVAL;
    if (fcntl(run.stands, F_SETLEASE, F_RDLCK) == 0)
        run.leased = true;
    else if (errno == EAGAIN)
        return -EBUSY; /* open for writing; elsewhere there are no leases, or not for us */
    if (run.judged == NULL)
        return 0;
    if (!run.leased)
        return -EACCES;
    return fstat(run.stands, &status) == 0 && as_judged(&status) ? 0 : -EBUSY;
}

/* Whether the pieces are the same but for zeros in what is there. */
static bool is_part(size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (run.there[at] != run.piece[at] && run.there[at] != 0)
            return false;
    return true;
}

/* How what stands at path compares with the version. A negative errno: cannot be read. */
static int compare(const char *path, const struct pool_version *version)
{
    uint64_t offset = 0;
    int result = watch(path), error;
    ssize_t length;

    if (result == -ENOENT)
        return MISSING;
    if (result != 0)
        return result;
    result = SAME;
    while ((length = read(run.stands, run.there, sizeof(run.there))) > 0) {
        if (offset + (uint64_t)length > version->attributes.size)
            return OTHER;
        error = pool_read(run.pool, version, offset, run.piece, (size_t)length);
        if (error != 0)
            return error;
        if (memcmp(run.piece, run.there, (size_t)length) != 0) {
            if (!is_part((size_t)length))
                return OTHER;
            result = PART;
        }
        offset += (uint64_t)length;
    }
    if (length < 0)
        return -errno;
    return offset < version->attributes.size ? PART : result;
}

/* Copies the version into fd. */
static int fill(int fd, const struct pool_version *version, const char *path)
{
    for (uint64_t offset = 0; offset < version->attributes.size;) {
        uint64_t left = version->attributes.size - offset;
        size_t length = left < PIECE ? (size_t)left : PIECE;
        ssize_t written;
        int error =
            untouched(path) ? pool_read(run.pool, version, offset, run.piece, length) : -EBUSY;

        if (error != 0)
            return error;
        for (size_t at = 0; at < length; at += (size_t)written) {
            written = write(fd, run.piece + at, length - at);
            if (written < 0)
                return -errno;
        }
        offset += length;
        run.done += length;
        run.left -= length < run.left ? length : run.left;
        bar_draw(&run.bar, run.done, run.left, NULL);
    }
    return 0;
}

static int dress(int fd, const struct pool_attributes *attributes)
{
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {attributes->mtime / 1000000000, attributes->mtime % 1000000000},
    };

    /* The owner where that is allowed; then the mode, which a change of owner cuts. */
    if (fchown(fd, attributes->uid, attributes->gid) < 0 && geteuid() == 0)
        return -errno;
    if (fchmod(fd, attributes->mode & 07777) < 0 || futimens(fd, times) < 0 || fsync(fd) < 0)
        return -errno;
    return 0;
}

/* Gives the file its name, unless there is something else by now. */
static int publish(const char *target, const char *path)
{
    if (run.stands < 0 && renameat2(AT_FDCWD, target, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (run.stands < 0 && errno != EINVAL && errno != ENOSYS)
        return errno == EEXIST ? -EBUSY : -errno;
    if (!untouched(path))
        return -EBUSY;
    return rename(target, path) < 0 ? -errno : 0;
}

/* 0, or an exit status after a message. */
int restore_file(const struct pool_version *version, const char *path, const struct stat *judged)
{
    static char safe[TEXT_ROOM(PATH_MAX)];
    static char target[sizeof(half)];
    int stands, fd, error;

    text_safe(safe, sizeof(safe), path);
    run.stands = -1;
    run.judged = judged;
    stands = compare(path, version);
    if (stands == SAME) {
        bar_clear(&run.bar);
        if (judged == NULL)
            printf("%s: is whole\n", safe);
        close(run.stands);
        return 0;
    }
    if (stands == OTHER && !run.force) {
        bar_clear(&run.bar);
        complain("%s: %s: what is there is not the beginning of commit %llu: left alone; "
                 "%s--force replaces it, %s--to writes elsewhere",
                 run.command, safe, (unsigned long long)version->number,
                 judged != NULL ? "restore " : "", judged != NULL ? "restore " : "");
        close(run.stands);
        return CTL_FAILED;
    }
    error = stands < 0 ? stands : 0;
    snprintf(target, sizeof(target), "%.*s.portus-XXXXXX", (int)(strrchr(path, '/') + 1 - path),
             path); /* the name itself may be as long as names can be */
    if (error == 0)
        error = make_directories(target);
    if (error != 0)
        goto fail;
    fd = mkstemp(target);
    if (fd < 0) {
        error = -errno;
        goto fail;
    }
    strcpy(half, target);
    error = fill(fd, version, path);
    if (error == 0)
        error = dress(fd, &version->attributes);
    close(fd);
    if (error == 0)
        error = publish(target, path);
    if (error != 0)
        unlink(target);
    half[0] = '\0';
    if (error != 0)
        goto fail;
    bar_clear(&run.bar);
    printf("%s: %s from commit %llu\n", safe, stands == PART ? "completed" : "restored",
           (unsigned long long)version->number);
    if (run.stands >= 0)
        close(run.stands);
    return 0;

fail:
    bar_clear(&run.bar);
    if (run.stands >= 0)
        close(run.stands);
    complain("%s: %s: commit %llu: %s", run.command, safe, (unsigned long long)version->number,
             error == -EUCLEAN ? "its bytes in the pool are damaged: try an older one, see "
                                 "portusctl versions"
             : error == -EBUSY ? "what is there is being written: left alone"
             : error == -EACCES && judged != NULL && !run.leased
                 ? "who writes it cannot be seen (no lease to be had): left alone"
                 : strerror(-error));
    return CTL_FAILED;
}

int restore_version(struct pool *pool, const struct pool_version *version, const char *path,
                    uint64_t *left)
{
    int status;

    if (run.pool == NULL)
        restore_begin(pool, "export", false);
    run.left = *left;
    status = restore_file(version, path, NULL);
    bar_clear(&run.bar);
    *left -= version->attributes.size;
    return status;
}

/* ---- from one pool, or the best of several ---- */

struct stores {
    struct pool *pool[PORTUS_ADDRESSES];
    unsigned count;
};

/* Of several those that answer: what is said of the others is said. */
static int open_stores(struct stores *stores, struct options *options)
{
    unsigned listed = portus_address_is(options->store) ? portus_address_count(options->store) : 1;
    struct portus_address address;

    if (listed == 1) {
        stores->count = 1;
        return vault_open(&stores->pool[0], options, "restore");
    }
    if (options->version != 0) {
        complain("restore: a commit's number is one store's: name that one with --store");
        return CTL_USAGE;
    }
    for (unsigned i = 0; i < listed; i++)
        if (portus_address_get(&address, options->store, i) &&
            remote_open(&stores->pool[stores->count], address.text) == 0)
            stores->count++;
    return stores->count > 0 ? CTL_OK : CTL_FAILED;
}

/* What a pool has of an operand: one version of each path. 0 or an exit status after a message. */
static int look_in(struct pool *pool, const struct options *options, const char *operand,
                   struct vault_list *found, char unsettled[PATH_MAX], int64_t *newest)
{
    static char absolute[PATH_MAX];
    struct stat status;
    bool one;

    if (vault_find(found, pool, operand, absolute, "restore") != 0)
        return CTL_FAILED;
    /* A file may have another name than the pool knows. */
    if (lstat(absolute, &status) == 0 && S_ISREG(status.st_mode) &&
        names_add(found, pool, absolute, false, portus_address_is(options->store)) != 0) {
        complain("restore: %s: %s", operand, strerror(ENOMEM));
        vault_free(found);
        return CTL_FAILED;
    }
    /* A file by its own name is its newest version; a directory is a whole set. */
    one = found->count > 0;
    for (size_t i = 0; i < found->count; i++)
        one &= strcmp(found->entry[i].path, absolute) == 0;
    unsettled[0] = '\0';
    if (found->count > 0 &&
        vault_newest(found, options->version, !one && options->version == 0, unsettled) != 0) {
        vault_free(found);
        complain("restore: %s: %s", operand, strerror(ENOMEM));
        return CTL_FAILED;
    }
    *newest = INT64_MIN;
    for (size_t i = 0; i < found->count; i++)
        if (found->entry[i].version.attributes.mtime > *newest)
            *newest = found->entry[i].version.attributes.mtime;
    return 0;
}

/* Of several stores the one that has what was written last. The pool, or NULL after a message. */
static struct pool *look(const struct stores *stores, const struct options *options,
                         const char *operand, struct vault_list *found)
{
    static char unsettled[PATH_MAX], other[PATH_MAX];
    struct pool *best = NULL;
    int64_t newest = INT64_MIN;

    unsettled[0] = '\0';
    for (unsigned i = 0; i < stores->count; i++) {
        struct vault_list list;
        int64_t this_one;

        if (look_in(stores->pool[i], options, operand, &list, other, &this_one) != 0)
            continue;
        if (other[0] != '\0')
            strcpy(unsettled, other);
        if (this_one <= newest) {
            vault_free(&list);
            continue;
        }
        if (best != NULL)
            vault_free(found);
        *found = list;
        newest = this_one;
        best = stores->pool[i];
    }
    if (best == NULL && unsettled[0] == '\0')
        complain("restore: %s: the pool has no version of it", operand);
    if (unsettled[0] != '\0')
        complain("restore: %s: at no commit were all files of its directory whole: --version "
                 "N takes what there was at commit N, see portusctl versions",
                 unsettled);
    if (unsettled[0] != '\0' && best != NULL)
        run.partly = true;
    return best;
}

int restore_main(int argc, char **argv)
{
    static char path[PATH_MAX];
    struct options options;
    int operand = options_parse(&options, argc, argv,
                                OPTION_STORE | OPTION_VERSION | OPTION_TO | OPTION_FORCE);
    struct stores stores = {0};
    struct vault_list found;
    int status;

    if (operand < 0)
        return CTL_USAGE;
    if (operand == argc) {
        complain("restore: which file or directory? see portusctl help restore");
        return CTL_USAGE;
    }
    status = open_stores(&stores, &options);
    if (status != 0)
        return status;
    restore_begin(stores.pool[0], argv[0], options.force);
    for (int i = operand; i < argc; i++) {
        run.pool = look(&stores, &options, argv[i], &found);
        if (run.pool == NULL || run.partly)
            status = CTL_FAILED;
        if (run.pool == NULL)
            continue;
        restore_expect(0);
        for (size_t j = 0; j < found.count; j++)
            run.left += found.entry[j].version.attributes.size;
        for (size_t j = 0; j < found.count; j++) {
            if (snprintf(path, sizeof(path), "%s%s", options.to != NULL ? options.to : "",
                         found.entry[j].path) >= (int)sizeof(path)) {
                complain("restore: %s: too long a path in %s", found.entry[j].path, options.to);
                status = CTL_FAILED;
            } else if (restore_file(&found.entry[j].version, path, NULL) != 0) {
                status = CTL_FAILED;
            }
        }
        vault_free(&found);
    }
    for (unsigned i = 0; i < stores.count; i++)
        pool_close(stores.pool[i]);
    return status;
}
