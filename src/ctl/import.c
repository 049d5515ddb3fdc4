/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * import.c -- portusctl import: plain files, from a directory or a tar stream, become versions
 *
 * A file is a version when all of it was read, so what is interrupted can be begun again:
 * what was imported already (same path, size and time) is passed over. Names are where a
 * version came from, and no proof: what is imported is an object of its own, and never
 * stands for a file that has the same path.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/address.h"
#include "common/futex.h"
#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/deposit.h"
#include "ctl/portable.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "store/intake.h"

#define PIECE (1u << 20)

/* A file that is to become a version. */
struct source {
    char *file; /* where its bytes are; NULL: in the stream */
    char *path;
    struct portable portable;
    struct stat status;
};

static struct {
    const struct options *options;
    struct deposit *deposit;
    struct bar bar;
    uint64_t done, left, files, skipped;
    struct vault_list there; /* what the pool held before, by path */
    char *last_path;         /* of the version whose directory is not settled yet, and its commit */
    uint64_t last;
    char piece[PIECE];
} run;

/* ---- what is there already ---- */

static int by_path(const void *one, const void *other)
{
    const struct vault_version *a = one, *b = other;

    return strcmp(a->path, b->path);
}

/* Root imports what was exported for whom it was; everybody else for himself. */
static uint32_t owner_of(const struct source *source)
{
    return geteuid() == 0 && source->portable.known ? source->portable.owner : geteuid();
}

/* Another machine knows this user by another number, and shows nobody else's. */
static bool is_there(const struct source *source)
{
    bool elsewhere = portus_address_is(run.options->store);
    const struct vault_version wanted = {.path = source->path};
    const struct vault_version *end = run.there.entry + run.there.count, *at;

    at = bsearch(&wanted, run.there.entry, run.there.count, sizeof(*at), by_path);
    while (at != NULL && at > run.there.entry && strcmp(at[-1].path, source->path) == 0)
        at--;
    for (; at != NULL && at < end && strcmp(at->path, source->path) == 0; at++) {
        const struct pool_key key =
            intake_key(source->path, elsewhere ? at->version.key.owner : owner_of(source));

        if (at->version.attributes.size == (uint64_t)source->status.st_size &&
            at->version.attributes.mtime == portus_nanoseconds(&source->status.st_mtim) &&
            memcmp(&at->version.key, &key, sizeof(key)) == 0)
            return true;
    }
    return false;
}

/* ---- a version ---- */

static int refuse(const struct source *source, int error, const char *why)
{
    char safe[TEXT_ROOM(PATH_MAX)];

    bar_clear(&run.bar);
    complain("import: %s: %s", text_safe(safe, sizeof(safe), source->path),
             error == -ENOSPC ? "no room: portusctl gc and rm make some"
             : error == -ECONNRESET
                 ? "portusd is not there any more: begin again, what was imported "
                   "is passed over"
             : why != NULL ? why
                           : strerror(-error));
    return error;
}

/* Whether what follows would fail as well. */
static bool is_over(int error)
{
    return error == -ENOSPC || error == -ECONNRESET || error == -ETIMEDOUT;
}

/* The last of a directory: with it all of it is there. It gets another number. */
static int settle(void)
{
    int error;

    if (run.last_path == NULL)
        return 0;
    error = deposit_mark(run.deposit, PORTUS_OP_STORE_SETTLE, run.last);
    free(run.last_path);
    run.last_path = NULL;
    return error;
}

static bool same_directory(const char *one, const char *other)
{
    size_t length = (size_t)(strrchr(one, '/') - one);

    return length == (size_t)(strrchr(other, '/') - other) && memcmp(one, other, length) == 0;
}

/* 0: go on; 1: it is there already; or a negative errno after a message. */
static int begin(const struct source *source)
{
    const struct portus_import file = {
        .size = (uint64_t)source->status.st_size,
        .mtime = portus_nanoseconds(&source->status.st_mtim),
        .mode = source->status.st_mode,
        .uid = source->status.st_uid,
        .gid = source->status.st_gid,
        .owner = owner_of(source),
        .settled = source->portable.settled,
    };
    int error;

    if (source->status.st_size < 0)
        return refuse(source, -EINVAL, NULL);
    if (is_there(source)) {
        run.skipped++;
        return 1;
    }
    if (run.last_path != NULL && !same_directory(run.last_path, source->path)) {
        error = settle();
        if (error != 0)
            return refuse(source, error, NULL);
    }
    error = deposit_begin(run.deposit, &file, source->path, source->portable.job);
    return error != 0 ? refuse(source, error, NULL) : 0;
}

static int commit(const struct source *source)
{
    uint64_t number;
    int error = deposit_keep(run.deposit, &number);

    if (error == 0 && source->portable.pinned)
        error = deposit_mark(run.deposit, PORTUS_OP_STORE_PIN, number);
    if (error != 0)
        return refuse(source, error, NULL);
    run.files++;
    if (!source->portable.known) {
        free(run.last_path);
        run.last_path = strdup(source->path);
        run.last = number;
    }
    return 0;
}

static int put(const struct source *source, uint64_t offset, const void *bytes, size_t length)
{
    int error = deposit_put(run.deposit, offset, bytes, length);

    if (error != 0)
        return refuse(source, error, NULL);
    run.done += length;
    run.left -= length < run.left ? length : run.left;
    bar_draw(&run.bar, run.done, run.left, NULL);
    return 0;
}

/* ---- a directory ---- */

static int copy_file(const struct source *source)
{
    int fd = open(source->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error = 0;
    struct stat status;
    uint64_t offset = 0;
    ssize_t length = 0;

    if (fd < 0)
        return refuse(source, -errno, errno == EAGAIN ? "it is being saved" : NULL);
    while (error == 0 && (length = read(fd, run.piece, sizeof(run.piece))) > 0) {
        if ((uint64_t)length > (uint64_t)source->status.st_size - offset)
            break; /* it has grown */
        error = put(source, offset, run.piece, (size_t)length);
        offset += (uint64_t)length;
    }
    if (error == 0 && length < 0)
        error = refuse(source, -errno, NULL);
    if (error == 0 &&
        (length > 0 || fstat(fd, &status) < 0 || status.st_ino != source->status.st_ino ||
         status.st_size != source->status.st_size || offset != (uint64_t)status.st_size ||
         portus_nanoseconds(&status.st_mtim) != portus_nanoseconds(&source->status.st_mtim)))
        error = refuse(source, -EBUSY, "it was changed while it was read");
    close(fd);
    return error;
}

static int import_file(const struct source *source)
{
    int error = begin(source);

    if (error != 0)
        return error == 1 ? 0 : error;
    error = copy_file(source);
    return error == 0 ? commit(source) : error;
}

struct sources {
    struct source *entry;
    size_t count;
};

static int add(struct sources *sources, const char *file, const struct stat *status,
               const char *path)
{
    struct source *source;
    char text[PORTABLE_BYTES];
    ssize_t length;

    if ((sources->count & (sources->count + 1)) == 0) { /* one less than a power of two */
        source = realloc(sources->entry, (2 * sources->count + 1) * sizeof(*source));
        if (source == NULL)
            return -ENOMEM;
        sources->entry = source;
    }
    source = &sources->entry[sources->count];
    memset(source, 0, sizeof(*source));
    source->file = strdup(file);
    source->path = strdup(path);
    if (source->file == NULL || source->path == NULL) {
        free(source->file);
        free(source->path);
        return -ENOMEM;
    }
    sources->count++;
    source->status = *status;
    if (run.options->all && portable_cut(&source->portable, source->path)) {
        length = getxattr(source->file, PORTABLE_NAME, text, sizeof(text));
        if (length > 0)
            portable_read(&source->portable, text, (size_t)length);
    }
    run.left += (uint64_t)source->status.st_size;
    return 0;
}

/* In the order of their commits; what has none by directories. */
static int by_commit(const void *one, const void *other)
{
    const struct source *a = one, *b = other;
    size_t lengths[2] = {(size_t)(strrchr(a->path, '/') - a->path),
                         (size_t)(strrchr(b->path, '/') - b->path)};
    size_t least = lengths[0] < lengths[1] ? lengths[0] : lengths[1];
    int order = memcmp(a->path, b->path, least);

    if (a->portable.commit != b->portable.commit)
        return a->portable.commit < b->portable.commit ? -1 : 1;
    if (order != 0)
        return order;
    if (lengths[0] != lengths[1])
        return lengths[0] < lengths[1] ? -1 : 1;
    return strcmp(a->path, b->path);
}

/*
 * All files below path, which is top or in it; one that cannot be looked at is told. (Not by fts:
 * it takes a directory that cannot be read for one that ends.) 0, 1: in part, or -ENOMEM.
 */
static int find(struct sources *sources, char path[PATH_MAX], size_t top)
{
    size_t length = strlen(path);
    DIR *directory = opendir(length > 0 ? path : "/");
    struct dirent *entry;
    struct stat status;
    int error = 0, part = 0;

    while (directory != NULL && error != -ENOMEM &&
           (errno = 0, entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (snprintf(path + length, PATH_MAX - length, "/%s", entry->d_name) >=
            (int)(PATH_MAX - length))
            errno = ENAMETOOLONG;
        else
            errno = lstat(path, &status) < 0 ? errno : 0;
        if (errno != 0) {
            complain("import: %s: %s", path, strerror(errno));
            error = 1;
        } else {
            error = S_ISDIR(status.st_mode)   ? find(sources, path, top)
                    : S_ISREG(status.st_mode) ? add(sources, path, &status, path + top)
                                              : 0;
        }
        part |= error == 1;
        path[length] = '\0';
    }
    if (errno != 0 && error != -ENOMEM) {
        complain("import: %s: %s", path, strerror(errno));
        part = 1;
    }
    if (directory != NULL)
        closedir(directory);
    return error < 0 ? error : part;
}

static int import_directory(const char *top)
{
    struct sources sources = {0};
    char path[PATH_MAX];
    size_t length = strlen(top);
    int error, status;

    while (length > 0 && top[length - 1] == '/')
        length--;
    if (snprintf(path, sizeof(path), "%.*s", (int)length, top) >= (int)sizeof(path)) {
        complain("import: %s: %s", top, strerror(ENAMETOOLONG));
        return CTL_FAILED;
    }
    error = find(&sources, path, length);
    status = error == 0 ? CTL_OK : CTL_FAILED;
    if (error < 0)
        complain("import: %s: %s", top, strerror(-error));
    if (sources.count > 0)
        qsort(sources.entry, sources.count, sizeof(*sources.entry), by_commit);
    for (size_t i = 0; i < sources.count; i++) {
        if (!is_over(error))
            error = import_file(&sources.entry[i]);
        if (error != 0)
            status = CTL_FAILED;
        free(sources.entry[i].file);
        free(sources.entry[i].path);
    }
    free(sources.entry);
    return status;
}

/* ---- tar ---- */

/* 0: a version more, or nothing to do; otherwise after a message. */
static int import_member(struct archive *tar, struct archive_entry *member, struct source *source)
{
    const char *name = archive_entry_pathname(member);
    const void *bytes;
    size_t length;
    la_int64_t offset;
    int error, result;

    if (archive_entry_filetype(member) != AE_IFREG || archive_entry_hardlink(member) != NULL)
        return 0;
    while (name != NULL && (name[0] == '/' || (name[0] == '.' && name[1] == '/')))
        name += name[0] == '/' ? 1 : 2;
    if (name == NULL || snprintf(source->path, PATH_MAX, "/%s", name) >= PATH_MAX) {
        complain("import: a member's name is missing or too long: left out");
        return -ENAMETOOLONG;
    }
    memset(&source->portable, 0, sizeof(source->portable));
    memset(&source->status, 0, sizeof(source->status));
    source->status.st_mode = S_IFREG | (archive_entry_perm(member) & 07777);
    source->status.st_uid = (uid_t)archive_entry_uid(member);
    source->status.st_gid = (gid_t)archive_entry_gid(member);
    source->status.st_size = archive_entry_size(member);
    source->status.st_mtim.tv_sec = archive_entry_mtime(member);
    source->status.st_mtim.tv_nsec = archive_entry_mtime_nsec(member);
    if (run.options->all && portable_cut(&source->portable, source->path)) {
        const char *key;

        archive_entry_xattr_reset(member);
        while (archive_entry_xattr_next(member, &key, &bytes, &length) == ARCHIVE_OK)
            if (strcmp(key, PORTABLE_NAME) == 0)
                portable_read(&source->portable, bytes, length);
    }
    error = begin(source);
    if (error != 0)
        return error == 1 ? 0 : error;
    while ((result = archive_read_data_block(tar, &bytes, &length, &offset)) == ARCHIVE_OK &&
           error == 0)
        error = put(source, (uint64_t)offset, bytes, length);
    if (error == 0 && result != ARCHIVE_EOF)
        error = refuse(source, -EPROTO, archive_error_string(tar));
    return error == 0 ? commit(source) : error;
}

static int import_tar(void)
{
    char path[PATH_MAX];
    struct source source = {.path = path};
    struct archive *tar = archive_read_new();
    struct archive_entry *member;
    int status = 0, result = ARCHIVE_FATAL;

    setlocale(LC_CTYPE, "C.UTF-8"); /* names are taken as they are, not converted */
    if (tar != NULL && archive_read_support_format_tar(tar) == ARCHIVE_OK &&
        archive_read_support_filter_gzip(tar) == ARCHIVE_OK &&
        archive_read_support_filter_xz(tar) == ARCHIVE_OK &&
        archive_read_support_filter_zstd(tar) == ARCHIVE_OK &&
        archive_read_open_fd(tar, STDIN_FILENO, PIECE) == ARCHIVE_OK)
        while ((result = archive_read_next_header(tar, &member)) >= ARCHIVE_WARN &&
               result != ARCHIVE_EOF) {
            int error = import_member(tar, member, &source);

            if (error != 0)
                status = CTL_FAILED;
            if (is_over(error) || error == -EPROTO)
                break;
        }
    if (result != ARCHIVE_EOF && status == 0) {
        bar_clear(&run.bar);
        complain("import: the stream is no whole tar: %s",
                 tar != NULL && archive_error_string(tar) != NULL ? archive_error_string(tar)
                                                                  : strerror(ENOMEM));
        status = CTL_FAILED;
    }
    archive_read_free(tar);
    return status;
}

int import_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE | OPTION_ALL | OPTION_TAR);
    struct pool *pool;
    int status, error;

    if (operand < 0)
        return CTL_USAGE;
    if (argc - operand != (options.tar ? 0 : 1)) {
        complain("import: give DIR, or --tar for a stream: see portusctl help import");
        return CTL_USAGE;
    }
    if (options.store[0] == '\0') {
        complain("import: which pool? give --store POOL or set PORTUS_STORE");
        return CTL_USAGE;
    }
    run.options = &options;
    status = vault_open(&pool, &options, argv[0]);
    if (status == 0) {
        status = vault_find(&run.there, pool, NULL, NULL, argv[0]);
        pool_close(pool);
    }
    if (status != 0)
        return status;
    if (deposit_open(&run.deposit, options.store, (unsigned)options.env->keep) != 0) {
        vault_free(&run.there);
        return CTL_FAILED;
    }
    if (run.there.count > 0)
        qsort(run.there.entry, run.there.count, sizeof(*run.there.entry), by_path);
    bar_start(&run.bar);
    status = options.tar ? import_tar() : import_directory(argv[operand]);
    error = settle();
    bar_clear(&run.bar);
    vault_free(&run.there);
    deposit_close(run.deposit);
    if (error != 0) {
        complain("import: the last directory is not known to be whole: %s", strerror(-error));
        status = CTL_FAILED;
    }
    printf("%llu versions imported, %llu were there\n", (unsigned long long)run.files,
           (unsigned long long)run.skipped);
    return status;
}
