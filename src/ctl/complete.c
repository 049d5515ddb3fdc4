// SPDX-License-Identifier: BSD-3-Clause
/*
 * complete.c -- portusctl complete: files that a killed job or a power cut left short
 *
 * Needs no decision of a person, so it may be done for a whole directory, and is what an
 * open does with PORTUS_RESTORE=auto (preload/restore.c runs this). A file is completed
 * only from its own version: the newest of its path must be of this very file (file system
 * and handle), and the file must not have been changed since that version was made. (One that was
 * committed before it was drained, as with PORTUS_ORDER=relaxed, and not known to be drained, has
 * changed by the drain alone.) So what a later save left short is not filled up with an older
 * step's bytes, and a directory never becomes a mixture of two. Then restore.c compares and
 * completes, as ever.
 *
 * A program that sets the size first (safetensors) leaves a file that is as large as it should
 * be and lacks bytes: its blocks are reserved and were never written, which reads as zeros. The
 * file system knows (lseek tells only until somebody has read the file). One that always had
 * holes compares as whole.
 *
 * A file that was renamed, and the pool was not told of it, is found by what it is (names.c).
 *
 * --list says which files that may be, and opens none that may be being saved: that would lose
 * its lease.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/fiemap.h>
#include <linux/fs.h>

#include "common/address.h"
#include "common/futex.h"
#include "common/host.h"
#include "common/listing.h"
#include "ctl/ctl.h"
#include "ctl/names.h"
#include "ctl/restore.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "portus/layout.h"
#include "store/remote.h"

#define LOCK_MS 600000
#define TICK_NS 10000000 /* 100 Hz, the slowest */
#define EXTENTS 64       /* that are asked for at a time */

static bool far; /* the store is on another machine: it tells ours from others */

enum state {
    RIGHT, /* not short; or not there, or newer: whatever it is, it is not this version's */
    CUT,   /* it can be this version, cut short */
    HOLED, /* as large as this version, and if it has holes it may lack bytes */
    EMPTY, /* a later save has emptied it */
};

static enum state look(const struct pool_version *version, const char *path, struct stat *status)
{
    enum state state;

    if (lstat(path, status) < 0 || !S_ISREG(status->st_mode) ||
        (uint64_t)status->st_size > version->attributes.size)
        return RIGHT;
    state = (uint64_t)status->st_size == version->attributes.size ? HOLED : CUT;
    if (portus_nanoseconds(&status->st_mtim) <= version->attributes.mtime)
        return state;
    /* The drain was writing it when this came to the disk; at its end, which did not, it had set
     * the time back. */
    if (portus_nanoseconds(&status->st_ctim) <= version->attributes.ctime)
        return state;
    /* The drain was writing it, and has not come to its end; or has not begun. The program's last
     * write was noted by a clock with ticks, and that of the file may be some of one ahead: when
     * its blocks were reserved. */
    if (version->attributes.early &&
        (status->st_size != 0 ||
         portus_nanoseconds(&status->st_mtim) <= version->attributes.mtime + TICK_NS))
        return state;
    return status->st_size == 0 && state == CUT ? EMPTY : RIGHT;
}

/* Whether of some of the file no byte was ever written. */
static bool has_holes(int fd)
{
    union {
        struct fiemap map;
        char room[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
    } answer;
    struct stat status;
    uint64_t at = 0;

    if (fstat(fd, &status) < 0)
        return false;
    while (at < (uint64_t)status.st_size) {
        answer.map = (struct fiemap){
            .fm_start = at,
            .fm_length = FIEMAP_MAX_OFFSET - at,
            .fm_flags = FIEMAP_FLAG_SYNC, /* what is written is not reserved only, then */
            .fm_extent_count = EXTENTS,
        };
        if (ioctl(fd, FS_IOC_FIEMAP, &answer) < 0) {
            off_t hole = lseek(fd, 0, SEEK_HOLE);

            return hole >= 0 && hole < status.st_size;
        }
        if (answer.map.fm_mapped_extents == 0)
            return true;
        for (unsigned i = 0; i < answer.map.fm_mapped_extents; i++) {
            const struct fiemap_extent *extent = &answer.map.fm_extents[i];

            if (extent->fe_logical > at)
                return true;
            if (extent->fe_logical < (uint64_t)status.st_size &&
                (extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN))
                return true;
            at = extent->fe_logical + extent->fe_length;
        }
    }
    return false;
}

/* Whether nothing has happened to a file since this machine was started. */
static bool before_start(const struct stat *status)
{
    struct timespec now, up;

    return clock_gettime(CLOCK_REALTIME, &now) == 0 && clock_gettime(CLOCK_BOOTTIME, &up) == 0 &&
           portus_nanoseconds(&status->st_ctim) <
               portus_nanoseconds(&now) - portus_nanoseconds(&up);
}

/* Whether a file that is as large as it should be is to be looked at when it is opened. */
static bool may_lack(const struct pool_version *version, const char *path,
                     const struct stat *status)
{
    bool may;
    int fd;

    if (version->attributes.early)
        return true; /* it may be live */
    if (!before_start(status))
        return false;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    may = fd >= 0 && has_holes(fd);
    if (fd >= 0)
        close(fd);
    return may;
}

/*
 * Waits until nobody else is completing it: of several programs that open it one has the work.
 * A descriptor to be closed afterwards, or a negative errno.
 */
static int begin(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return errno == EAGAIN ? -EBUSY : -errno;
    for (unsigned waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited++) {
        int error = -errno;

        if (error == -EWOULDBLOCK && waited < LOCK_MS / 10) {
            usleep(10000);
            continue;
        }
        close(fd);
        return error == -EWOULDBLOCK ? -EBUSY : error;
    }
    return fd;
}

static bool is(int fd, const struct stat *status)
{
    struct stat there;

    return fstat(fd, &there) == 0 && there.st_dev == status->st_dev &&
           there.st_ino == status->st_ino;
}

/* Of one that is as large as it should be: whether it is that file, and some of it may be missing.
 * One that may not be drained can lack any of it. */
static bool is_doubtful(const struct pool_version *version, const char *path, int fd,
                        const struct stat *status)
{
    return fd >= 0 && is(fd, status) && names_is_of(version, path, far) &&
           ((version->attributes.early && status->st_nlink == 1) || has_holes(fd));
}

/* Why what is there is not to be touched, or NULL. */
static const char *doubt(const struct pool_version *version, const char *path, enum state state,
                         const struct stat *status)
{
    if (state == EMPTY)
        return "it was emptied after that";
    if (status->st_nlink != 1)
        return "it has several names";
    if (!names_is_of(version, path, far))
        return "it is another file than that was made of";
    return NULL;
}

/* 0, or an exit status after a message. */
static int complete(const struct pool_version *version, const char *path)
{
    static char safe[TEXT_ROOM(PATH_MAX)];
    struct stat status;
    enum state state = look(version, path, &status);
    const char *why = NULL;
    int fd = -1, result = CTL_OK;

    if (state == CUT || state == HOLED) {
        fd = begin(path);
        if (fd < 0)
            why = fd == -EBUSY ? "it is in use" : strerror(-fd);
        state = look(version, path, &status); /* completed meanwhile? */
        if (state == HOLED && !is_doubtful(version, path, fd, &status))
            state = RIGHT;
    }
    if (state != RIGHT && why == NULL)
        why = doubt(version, path, state, &status);
    if (state != RIGHT && why == NULL)
        result = restore_file(version, path, &status);
    if (fd >= 0)
        close(fd);
    if (state == RIGHT || why == NULL)
        return result;
    complain("complete: %s: %s commit %llu, but %s: left alone; portusctl restore "
             "brings that commit back",
             text_safe(safe, sizeof(safe), path),
             state == HOLED ? "may lack bytes of" : "shorter than",
             (unsigned long long)version->number, why);
    return CTL_FAILED;
}

/*
 * One that was committed before it was drained, and is not at its path: where it is nobody can
 * tell, but who opens it what it is.
 */
static int list_stray(const struct pool_version *version, void *argument)
{
    const uint8_t *machine = argument;
    struct listing_entry what = {.handle_type = version->key.handle_type,
                                 .handle_bytes = version->key.handle_bytes};
    char text[LISTING_TEXT];

    if (!version->attributes.early || names_is_of(version, version->attributes.path, far))
        return 0;
    memcpy(what.file_system, version->key.file_system, sizeof(what.file_system));
    host_mix(what.file_system, machine);
    memcpy(what.handle, version->key.handle, what.handle_bytes);
    listing_text(&what, text);
    printf("%llu %s%c", (unsigned long long)version->attributes.size, text, '\0');
    return 0;
}

static int list_strays(const struct pool *pool)
{
    uint8_t machine[16] = {0};

    if (far)
        host_id(machine);
    return pool_each(pool, list_stray, machine);
}

/* SIZE and PATH of what is short, each line ended by a NUL; an empty one at the end. */
static void list(const struct vault_list *found)
{
    struct stat status;

    for (size_t i = 0; i < found->count; i++) {
        const struct pool_version *version = &found->entry[i].version;
        enum state state = look(version, found->entry[i].path, &status);

        if (state != RIGHT && (state != HOLED || may_lack(version, found->entry[i].path, &status)))
            printf("%llu %s%c", (unsigned long long)found->entry[i].version.attributes.size,
                   found->entry[i].path, '\0');
    }
}

/*
 * Where the bytes of the file at path lie, if its newest version is what stands there: the
 * very file, and nobody has changed it since. Its change time tells, which nobody can set; and
 * when the version was made nobody had the file open for writing, or mapped.
 */
static int lend(struct pool *pool, const char *store, const struct vault_list *found,
                const char *path)
{
    const struct portus_pool_extent *extents;
    struct portus_pool_lent lent = {.magic = PORTUS_POOL_LENT_MAGIC};
    const struct pool_version *version;
    struct pool_state state;
    struct stat status;

    pool_look(pool, &state);
    if (found->count != 1 || strcmp(found->entry[0].path, path) != 0 ||
        strcmp(state.kind, "devdax") == 0 || remote_is(store))
        return CTL_FAILED;
    version = &found->entry[0].version;
    if (lstat(path, &status) < 0 || !S_ISREG(status.st_mode) || !names_is_of(version, path, far))
        return CTL_FAILED;
    lent.device = status.st_dev;
    lent.inode = status.st_ino;
    lent.size = (uint64_t)status.st_size;
    lent.mtime = portus_nanoseconds(&status.st_mtim);
    lent.ctime = portus_nanoseconds(&status.st_ctim);
    if (lent.size != version->attributes.size || lent.mtime != version->attributes.mtime ||
        lent.ctime != version->attributes.ctime ||
        pool_extents(pool, version, &extents, &lent.extents) != 0)
        return CTL_FAILED;
    fwrite(&lent, sizeof(lent), 1, stdout);
    fwrite(extents, sizeof(*extents), lent.extents, stdout);
    return CTL_OK;
}

int complete_main(int argc, char **argv)
{
    static char absolute[PATH_MAX], unsettled[PATH_MAX];
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE | OPTION_LIST | OPTION_EXTENTS),
        status;
    struct vault_list found;
    struct pool *pool;

    if (operand < 0)
        return CTL_USAGE;
    if (operand == argc && !options.list) {
        complain("complete: which file or directory? see portusctl help complete");
        return CTL_USAGE;
    }
    status = vault_open(&pool, &options, argv[0]);
    if (status != 0)
        return status;
    far = portus_address_is(options.store);
    restore_begin(pool, argv[0], false);
    for (int i = operand; i < argc || i == operand; i++) {
        const char *path = i < argc ? argv[i] : NULL;
        uint64_t bytes = 0;
        int error;

        if (vault_find(&found, pool, path, absolute, argv[0]) != 0) {
            status = CTL_FAILED;
            continue;
        }
        error = options.extents || path == NULL ? 0 : names_add(&found, pool, absolute, true, far);
        if (error == -E2BIG) {
            complain("complete: %s: there are too many files: those that were renamed and the pool "
                     "was not told are not all found",
                     path);
            error = 0;
        }
        if (error == 0)
            error = vault_newest(&found, 0, false, unsettled);
        if (error != 0) {
            complain("complete: %s: %s", path != NULL ? path : "the pool", strerror(-error));
            vault_free(&found);
            status = CTL_FAILED;
            continue;
        }
        if (options.list)
            list(&found);
        if (options.list && path == NULL && list_strays(pool) != 0)
            status = CTL_FAILED;
        if (options.extents) {
            status = lend(pool, options.store, &found, absolute);
            vault_free(&found);
            break;
        }
        for (size_t j = 0; j < found.count && !options.list; j++) {
            struct stat there;

            if (look(&found.entry[j].version, found.entry[j].path, &there) == CUT) /* or more */
                bytes += found.entry[j].version.attributes.size;
        }
        restore_expect(bytes);
        for (size_t j = 0; j < found.count && !options.list; j++)
            if (complete(&found.entry[j].version, found.entry[j].path) != 0)
                status = CTL_FAILED;
        vault_free(&found);
    }
    pool_close(pool);
    if (options.list && status == CTL_OK)
        putchar('\0');
    return status;
}
