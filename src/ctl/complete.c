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
 * --list says which files that may be, and opens none of them: one that is being saved
 * would lose its lease.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/address.h"
#include "common/futex.h"
#include "common/host.h"
#include "ctl/ctl.h"
#include "ctl/restore.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "portus/layout.h"
#include "store/remote.h"
#include "store/state.h"

#define LOCK_MS 600000

static bool far; /* the store is on another machine: it tells ours from others */

enum state {
    RIGHT, /* not short; or not there, or newer: whatever it is, it is not this version's */
    CUT,   /* it can be this version, cut short */
    EMPTY, /* a later save has emptied it */
};

static enum state look(const struct pool_version *version, const char *path, struct stat *status)
{
    if (lstat(path, status) < 0 || !S_ISREG(status->st_mode) ||
        (uint64_t)status->st_size >= version->attributes.size)
        return RIGHT;
    if (portus_nanoseconds(&status->st_mtim) <= version->attributes.mtime)
        return CUT;
    /* The drain was writing it, and has not come to its end. */
    if (version->attributes.early && status->st_size != 0)
        return CUT;
    return status->st_size == 0 ? EMPTY : RIGHT;
}

/* Whether path is the very file that the version was made of. */
static bool is_of(const struct pool_version *version, const char *path)
{
    struct pool_key key;
    uint8_t machine[16];
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool is = fd >= 0 && store_key(fd, &key) == 0;

    if (is && far) {
        host_id(machine);
        host_mix(key.file_system, machine);
    }
    is = is && store_same_file(&key, &version->key);

    if (fd >= 0)
        close(fd);
    return is;
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

/* Why what is there is not to be touched, or NULL. */
static const char *doubt(const struct pool_version *version, const char *path, enum state state,
                         const struct stat *status)
{
    if (state == EMPTY)
        return "it was emptied after that";
    if (status->st_nlink != 1)
        return "it has several names";
    if (!is_of(version, path))
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

    if (state == CUT) {
        fd = begin(path);
        if (fd < 0)
            why = fd == -EBUSY ? "it is in use" : strerror(-fd);
        state = look(version, path, &status); /* completed meanwhile? */
    }
    if (state != RIGHT && why == NULL)
        why = doubt(version, path, state, &status);
    if (state != RIGHT && why == NULL)
        result = restore_file(version, path, &status);
    if (fd >= 0)
        close(fd);
    if (state == RIGHT || why == NULL)
        return result;
    complain("complete: %s: shorter than commit %llu, but %s: left alone; portusctl restore "
             "brings that commit back",
             text_safe(safe, sizeof(safe), path), (unsigned long long)version->number, why);
    return CTL_FAILED;
}

/* SIZE and PATH of what is short, each line ended by a NUL; an empty one at the end. */
static void list(const struct vault_list *found)
{
    struct stat status;

    for (size_t i = 0; i < found->count; i++)
        if (look(&found->entry[i].version, found->entry[i].path, &status) != RIGHT)
            printf("%llu %s%c", (unsigned long long)found->entry[i].version.attributes.size,
                   found->entry[i].path, '\0');
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
    if (lstat(path, &status) < 0 || !S_ISREG(status.st_mode) || !is_of(version, path))
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
        uint64_t bytes = 0;

        if (vault_find(&found, pool, i < argc ? argv[i] : NULL, absolute, argv[0]) != 0 ||
            vault_newest(&found, 0, false, unsettled) != 0) {
            status = CTL_FAILED;
            continue;
        }
        if (options.list)
            list(&found);
        if (options.extents) {
            status = lend(pool, options.store, &found, absolute);
            vault_free(&found);
            break;
        }
        for (size_t j = 0; j < found.count && !options.list; j++) {
            struct stat there;

            if (look(&found.entry[j].version, found.entry[j].path, &there) == CUT)
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
