/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake.c -- versions of bytes that somebody sends
 */
#include "store/intake.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/hash.h"

struct pool_key intake_key(const char *path, uint32_t owner)
{
    struct pool_key key = {.owner = owner, .handle_bytes = 16};
    uint64_t hash = portus_hash(PORTUS_HASH_EMPTY, path, strlen(path) + 1);

    memcpy(key.file_system, "portusctl import", 16);
    memcpy(key.handle, &hash, 8);
    hash = portus_hash(hash ^ 0x9e3779b97f4a7c15u, path, strlen(path) + 1);
    memcpy(key.handle + 8, &hash, 8);
    return key;
}

/* A text of so many bytes, of which the last is its one NUL. */
static bool get_text(char to[PATH_MAX], const char *from, uint32_t bytes)
{
    if (bytes == 0 || bytes > PATH_MAX || strnlen(from, bytes) != bytes - 1)
        return false;
    memcpy(to, from, bytes);
    return true;
}

int intake_read(struct intake *intake, const void *bytes, size_t length)
{
    const char *texts = (const char *)bytes + sizeof(intake->file);
    struct portus_import *file = &intake->file;

    intake_drop(intake);
    if (length < sizeof(*file))
        return -EPROTO;
    memcpy(file, bytes, sizeof(*file));
    length -= sizeof(*file);
    if (file->path_bytes > length || file->job_bytes != length - file->path_bytes ||
        !get_text(intake->path, texts, file->path_bytes) ||
        !get_text(intake->job, texts + file->path_bytes, file->job_bytes) ||
        file->size > INT64_MAX || !S_ISREG(file->mode) || file->settled > 1 || file->zero != 0)
        return -EPROTO;
    return 0;
}

int intake_begin(struct intake *intake, struct pool *pool, const struct pool_share *share,
                 unsigned keep)
{
    const struct pool_key key = intake_key(intake->path, share->owner);
    uint64_t size = intake->file.size;
    int64_t room = pool_make_room_of(pool, share, size, keep);
    int error;

    if (room < 0)
        return (int)room;
    if (!share->everyone && (uint64_t)room < pool_needs(size))
        return -ENOSPC; /* of one's own pool all may be used: holes take nothing */
    error = pool_begin(pool, &key, &intake->draft);
    if (error == 0)
        pool_expect(intake->draft, share->everyone ? 0 : size);
    return error;
}

int intake_put(struct intake *intake, uint64_t offset, const void *bytes, size_t length)
{
    if (intake->error != 0)
        return intake->error;
    if (intake->draft == NULL || offset > intake->file.size || length > intake->file.size - offset)
        intake->error = -EPROTO;
    else
        intake->error = pool_write(intake->draft, offset, bytes, length);
    return intake->error;
}

int intake_keep(struct intake *intake, uint64_t *number)
{
    const struct pool_attributes attributes = {
        .path = intake->path,
        .job = intake->job,
        .size = intake->file.size,
        .mtime = intake->file.mtime,
        .mode = intake->file.mode,
        .uid = intake->file.uid,
        .gid = intake->file.gid,
        .settled = intake->file.settled,
    };
    struct pool_draft *draft = intake->draft;
    int error = intake->error != 0 ? intake->error : draft == NULL ? -EPROTO : 0;

    if (error == 0) {
        intake->draft = NULL; /* gone, whatever happens */
        error = pool_commit(draft, &attributes, number);
    }
    intake_drop(intake);
    return error;
}

void intake_drop(struct intake *intake)
{
    pool_drop(intake->draft);
    intake->draft = NULL;
    intake->error = 0;
}
