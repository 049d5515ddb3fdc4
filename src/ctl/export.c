/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * export.c -- portusctl export: plain copies of what a pool holds, in a directory or as tar
 *
 * In a directory a file gets its name when all of it is there, and one that is there
 * already is compared and left: so what was interrupted is begun again. In a tar stream a
 * damaged version is left out, as nothing can be taken back there.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/portable.h"
#include "ctl/restore.h"
#include "ctl/text.h"
#include "ctl/vault.h"

#define PIECE (1u << 20)

static struct {
    const struct options *options;
    struct pool *pool;
    struct archive *tar;
    struct bar bar;
    uint64_t done, left;
    bool broken, told; /* the stream; that there are no extended attributes */
} run;

/* Its name outside: path, or path@commit. false: too long, after a message. */
static bool name_of(char *name, size_t size, const struct vault_version *entry, const char *top)
{
    unsigned long long number = entry->version.number;
    int length = run.options->all ? snprintf(name, size, "%s%s@%llu", top, entry->path, number)
                                  : snprintf(name, size, "%s%s", top, entry->path);

    if (length < (int)size)
        return true;
    complain("export: commit %llu: its path is too long for a copy", number);
    return false;
}

/* ---- a directory ---- */

static int to_directory(const struct vault_version *entry)
{
    char name[PATH_MAX], text[PORTABLE_BYTES];
    size_t length;
    int status;

    if (!name_of(name, sizeof(name), entry, run.options->to))
        return CTL_FAILED;
    status = restore_version(run.pool, &entry->version, name, &run.left);
    if (status != 0 || !run.options->all)
        return status;
    length = portable_write(text, &entry->version);
    if (setxattr(name, PORTABLE_NAME, text, length, 0) < 0 && !run.told) {
        run.told = true;
        complain("export: %s: no extended attributes (%s): which versions belong together is not "
                 "in the copy",
                 run.options->to, strerror(errno));
    }
    return 0;
}

/* ---- tar ---- */

static int stream_failed(void)
{
    complain("export: the stream cannot be written: %s", archive_error_string(run.tar));
    run.broken = true;
    return CTL_FAILED;
}

static int write_bytes(const struct vault_version *entry)
{
    static char piece[PIECE];
    uint64_t size = entry->version.attributes.size;

    for (uint64_t offset = 0; offset < size;) {
        size_t length = size - offset < PIECE ? (size_t)(size - offset) : PIECE;
        int error = pool_read(run.pool, &entry->version, offset, piece, length);

        if (error != 0) {
            complain("export: commit %llu: %s: the stream ends here",
                     (unsigned long long)entry->version.number, strerror(-error));
            run.broken = true;
            return CTL_FAILED;
        }
        if (archive_write_data(run.tar, piece, length) != (la_ssize_t)length)
            return stream_failed();
        offset += length;
        run.done += length;
        run.left -= length;
        bar_draw(&run.bar, run.done, run.left, NULL);
    }
    return 0;
}

static int to_tar(const struct vault_version *entry)
{
    const struct pool_attributes *attributes = &entry->version.attributes;
    char name[PATH_MAX + 32], text[PORTABLE_BYTES], safe[TEXT_ROOM(PATH_MAX)];
    struct archive_entry *member;
    int status = 0, error;

    if (!name_of(name, sizeof(name), entry, ""))
        return CTL_FAILED;
    error = pool_verify(run.pool, &entry->version);
    if (error != 0) {
        bar_clear(&run.bar);
        run.left -= attributes->size;
        complain("export: %s: commit %llu: %s: left out",
                 text_safe(safe, sizeof(safe), entry->path),
                 (unsigned long long)entry->version.number,
                 error == -EUCLEAN ? "its bytes in the pool are damaged" : strerror(-error));
        return CTL_FAILED;
    }
    member = archive_entry_new();
    if (member == NULL)
        return stream_failed();
    archive_entry_set_pathname(member, name + 1); /* tar knows no absolute paths */
    archive_entry_set_filetype(member, AE_IFREG);
    archive_entry_set_perm(member, attributes->mode & 07777);
    archive_entry_set_uid(member, attributes->uid);
    archive_entry_set_gid(member, attributes->gid);
    archive_entry_set_size(member, (la_int64_t)attributes->size);
    archive_entry_set_mtime(member, attributes->mtime / 1000000000,
                            (long)(attributes->mtime % 1000000000));
    if (run.options->all)
        archive_entry_xattr_add_entry(member, PORTABLE_NAME, text,
                                      portable_write(text, &entry->version));
    if (archive_write_header(run.tar, member) < ARCHIVE_WARN)
        status = stream_failed();
    archive_entry_free(member);
    return status != 0 ? status : write_bytes(entry);
}

static int open_tar(void)
{
    if (isatty(STDOUT_FILENO)) {
        complain("export: no tar to a terminal: give > FILE, or | a command");
        return CTL_USAGE;
    }
    setlocale(LC_CTYPE, "C.UTF-8"); /* names are taken as they are, not converted */
    run.tar = archive_write_new();
    if (run.tar == NULL || archive_write_set_format_pax(run.tar) != ARCHIVE_OK ||
        archive_write_open_fd(run.tar, STDOUT_FILENO) != ARCHIVE_OK) {
        complain("export: the stream cannot be opened: %s",
                 run.tar != NULL ? archive_error_string(run.tar) : strerror(ENOMEM));
        return CTL_FAILED;
    }
    return 0;
}

/* A stream that broke gets no end, so that whoever reads it sees that. */
static int close_tar(void)
{
    int status = 0;

    if (run.broken)
        archive_write_fail(run.tar);
    else if (archive_write_close(run.tar) != ARCHIVE_OK)
        status = stream_failed();
    archive_write_free(run.tar);
    return status;
}

/* ---- all ---- */

static int export_path(const char *path)
{
    char absolute[PATH_MAX], unsettled[PATH_MAX];
    struct vault_list found;
    int status = vault_find(&found, run.pool, path, absolute, "export");

    if (status != 0)
        return status;
    if (!run.options->all && vault_newest(&found, 0, false, unsettled) != 0)
        status = CTL_FAILED;
    if (found.count == 0 && path != NULL) {
        complain("export: %s: the pool has no version of it", path);
        status = CTL_FAILED;
    }
    for (size_t i = 0; i < found.count; i++)
        run.left += found.entry[i].version.attributes.size;
    for (size_t i = 0; i < found.count && !run.broken; i++)
        if ((run.tar != NULL ? to_tar : to_directory)(&found.entry[i]) != 0)
            status = CTL_FAILED;
    vault_free(&found);
    return status;
}

int export_main(int argc, char **argv)
{
    struct options options;
    int operand =
            options_parse(&options, argc, argv, OPTION_STORE | OPTION_ALL | OPTION_TAR | OPTION_TO),
        status;

    if (operand < 0)
        return CTL_USAGE;
    if ((options.to != NULL) == (options.tar != 0)) {
        complain("export: give --to DIR or --tar: see portusctl help export");
        return CTL_USAGE;
    }
    run.options = &options;
    status = vault_open(&run.pool, &options, argv[0]);
    if (status != 0)
        return status;
    if (options.to != NULL && mkdir(options.to, 0777) < 0 && errno != EEXIST) {
        complain("export: %s: %s", options.to, strerror(errno));
        status = CTL_FAILED;
    }
    if (status == 0 && options.tar)
        status = open_tar();
    if (status == 0) {
        bar_start(&run.bar);
        for (int i = operand; (i == operand || i < argc) && !run.broken; i++)
            if (export_path(i < argc ? argv[i] : NULL) != 0)
                status = CTL_FAILED;
        bar_clear(&run.bar);
        if (options.tar && close_tar() != 0)
            status = CTL_FAILED;
    }
    pool_close(run.pool);
    return status;
}
