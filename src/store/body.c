/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * body.c -- makes, loads and checks bodies
 *
 * Not here: whether two versions' extents overlap (recover.c).
 */
#include "store/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "store/siphash.h"

static uint64_t round8(uint64_t bytes)
{
    return (bytes + 7) & ~7ull;
}

/* Of all of a body, by the counts in its head, which are small enough not to overflow. */
static uint64_t whole(const struct portus_pool_body *head)
{
    return sizeof(*head) + round8(head->handle_bytes) +
           round8((uint64_t)head->path_bytes + head->job_bytes) +
           head->extents * sizeof(struct portus_pool_extent);
}

static int reserve(struct body *body, size_t bytes)
{
    struct portus_pool_body *head;

    if (bytes <= body->room)
        return 0;
    bytes += bytes / 4;
    head = realloc(body->head, bytes);
    if (head == NULL)
        return -ENOMEM;
    body->head = head;
    body->room = bytes;
    return 0;
}

static void point(struct body *body)
{
    char *at = (char *)(body->head + 1);

    body->handle = (uint8_t *)at;
    at += round8(body->head->handle_bytes);
    body->path = at;
    body->job = at + body->head->path_bytes;
    at += round8((uint64_t)body->head->path_bytes + body->head->job_bytes);
    body->extents = (struct portus_pool_extent *)(void *)at;
}

bool body_inside(const struct body_bounds *bounds, uint64_t offset, uint64_t bytes)
{
    return offset >= bounds->begin && offset <= bounds->end && bytes > 0 &&
           bytes <= bounds->end - offset && (offset - bounds->begin) % PORTUS_POOL_UNIT == 0;
}

static bool text_ends(const char *text, uint32_t bytes)
{
    return bytes >= 1 && memchr(text, 0, bytes) == text + bytes - 1;
}

/* As the kernel names files: whoever puts it behind a directory's name stays in there. */
static bool path_plain(const char *path)
{
    if (path[0] != '/')
        return false;
    while (*path == '/') {
        size_t length = strcspn(++path, "/");

        if (length == 0 || (length == 1 && path[0] == '.') ||
            (length == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += length;
    }
    return true;
}

static const char *check_extents(const struct body *body, const struct body_bounds *bounds)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < body->head->extents; i++) {
        const struct portus_pool_extent *extent = &body->extents[i];

        if (extent->length == 0 || extent->length > PORTUS_POOL_EXTENT)
            return "an extent's length is impossible";
        if (extent->offset < at || extent->offset > body->head->size ||
            extent->length > body->head->size - extent->offset)
            return "extents overlap in the file, or lie beyond its end";
        if (!body_inside(bounds, extent->place, extent->length))
            return "an extent lies outside of the data space";
        at = extent->offset + extent->length;
    }
    return NULL;
}

static const char *check(struct body *body, const struct body_bounds *bounds, uint64_t number,
                         uint32_t bytes)
{
    const struct portus_pool_body *head = body->head;

    if (head->magic != PORTUS_POOL_BODY_MAGIC || head->bytes != bytes || head->number != number)
        return "its body is another version's";
    if (head->handle_bytes > PORTUS_POOL_HANDLE || head->path_bytes > PORTUS_POOL_PATH ||
        head->job_bytes > PORTUS_POOL_PATH ||
        head->extents > PORTUS_POOL_BODY / sizeof(struct portus_pool_extent) ||
        whole(head) != bytes)
        return "the counts in its body are impossible";
    point(body);
    if (!text_ends(body->path, head->path_bytes) || !path_plain(body->path) ||
        !text_ends(body->job, head->job_bytes))
        return "its path or job is none";
    return check_extents(body, bounds);
}

int body_load(struct body *body, struct map *map, const struct body_bounds *bounds, uint64_t number,
              uint64_t offset, uint32_t bytes, uint32_t crc, const char **why)
{
    uint32_t sum = 0;
    int error;

    *why = NULL;
    if (bytes < sizeof(*body->head) || bytes > PORTUS_POOL_BODY ||
        !body_inside(bounds, offset, bytes)) {
        *why = "its body lies outside of the data space";
        return -EUCLEAN;
    }
    error = reserve(body, bytes);
    if (error != 0)
        return error;
    error = map_read_crc(map, offset, body->head, bytes, &sum);
    if (error != 0) {
        *why = "its body cannot be read";
        return error;
    }
    if (sum != crc)
        *why = "its body does not have its CRC";
    else
        *why = check(body, bounds, number, bytes);
    return *why == NULL ? 0 : -EUCLEAN;
}

int body_make(struct body *body, const struct pool_key *key,
              const struct pool_attributes *attributes, uint64_t extents)
{
    const char *job = attributes->job != NULL ? attributes->job : "";
    size_t path_bytes = strlen(attributes->path) + 1, job_bytes = strlen(job) + 1;
    struct portus_pool_body head = {
        .magic = PORTUS_POOL_BODY_MAGIC,
        .size = attributes->size,
        .mtime = attributes->mtime,
        .ctime = attributes->ctime,
        .mode = attributes->mode,
        .uid = attributes->uid,
        .gid = attributes->gid,
        .flags = (attributes->settled ? PORTUS_POOL_SETTLED : 0) |
                 (attributes->early ? PORTUS_POOL_EARLY : 0),
        .handle_type = key->handle_type,
        .handle_bytes = key->handle_bytes,
        .path_bytes = path_bytes,
        .job_bytes = job_bytes,
        .extents = extents,
        .owner = key->owner,
    };
    uint64_t bytes;
    int error;

    if (!path_plain(attributes->path) || key->handle_bytes > POOL_HANDLE_MAX) {
        log_error("%s: not a plain absolute path, or an impossible handle: not stored",
                  attributes->path);
        return -EINVAL;
    }
    if (path_bytes > PORTUS_POOL_PATH || job_bytes > PORTUS_POOL_PATH) {
        log_error("%.80s...: its path or its job's name is too long: not stored", attributes->path);
        return -ENAMETOOLONG;
    }
    bytes = extents > PORTUS_POOL_BODY / sizeof(*body->extents) ? UINT64_MAX : whole(&head);
    if (bytes > PORTUS_POOL_BODY) {
        log_error("%s: %llu extents are too many for one version: not stored", attributes->path,
                  (unsigned long long)extents);
        return -EFBIG;
    }
    error = reserve(body, bytes);
    if (error != 0)
        return error;
    head.bytes = bytes;
    memcpy(head.file_system, key->file_system, sizeof(head.file_system));
    memset(body->head, 0, bytes);
    *body->head = head;
    point(body);
    memcpy((uint8_t *)body->handle, key->handle, key->handle_bytes);
    memcpy((char *)body->path, attributes->path, path_bytes);
    memcpy((char *)body->job, job, job_bytes);
    return 0;
}

uint64_t body_stored(const struct body *body)
{
    uint64_t units = body_units(body->head->bytes);

    for (uint64_t i = 0; i < body->head->extents; i++)
        units += body_units(body->extents[i].length);
    return units;
}

struct pool_attributes body_attributes(const struct portus_pool_body *head, const char *path,
                                       const char *job)
{
    return (struct pool_attributes){
        .path = path,
        .job = job,
        .size = head->size,
        .mtime = head->mtime,
        .ctime = head->ctime,
        .mode = head->mode,
        .uid = head->uid,
        .gid = head->gid,
        .settled = head->flags & PORTUS_POOL_SETTLED,
        .early = head->flags & PORTUS_POOL_EARLY,
    };
}

bool body_has_key(const struct body *body, const struct pool_key *key)
{
    return body->head->owner == key->owner && body->head->handle_type == key->handle_type &&
           body->head->handle_bytes == key->handle_bytes &&
           memcmp(body->head->file_system, key->file_system, 16) == 0 &&
           memcmp(body->handle, key->handle, key->handle_bytes) == 0;
}

bool body_same_key(const struct body *one, const struct body *other)
{
    return one->head->owner == other->head->owner &&
           one->head->handle_type == other->head->handle_type &&
           one->head->handle_bytes == other->head->handle_bytes &&
           memcmp(one->head->file_system, other->head->file_system, 16) == 0 &&
           memcmp(one->handle, other->handle, one->head->handle_bytes) == 0;
}

bool body_same_place(const struct body *one, const struct body *other)
{
    return one->head->owner == other->head->owner &&
           memcmp(one->head->file_system, other->head->file_system, 16) == 0 &&
           strcmp(one->path, other->path) == 0 && strcmp(one->job, other->job) == 0;
}

bool body_same_extents(const struct body *one, const struct body *other)
{
    return one->head->extents == other->head->extents &&
           memcmp(one->extents, other->extents, one->head->extents * sizeof(*one->extents)) == 0;
}

/* Of one part after another: what was before goes into the next one's key. */
static uint64_t also(const uint64_t seed[2], uint64_t before, const void *data, size_t bytes)
{
    const uint64_t key[2] = {seed[0] ^ before, seed[1]};

    return siphash(key, data, bytes);
}

/* Of two users nothing is the same. */
static uint64_t begin_hash(const uint64_t seed[2], uint32_t owner, uint32_t type,
                           const uint8_t file_system[16])
{
    return also(seed, (uint64_t)owner << 32 | type, file_system, 16);
}

uint64_t body_hash_key(const struct pool_key *key, const uint64_t seed[2])
{
    uint64_t hash = begin_hash(seed, key->owner, key->handle_type, key->file_system);

    return also(seed, hash, key->handle, key->handle_bytes);
}

uint32_t body_hash_folder(const char *path, const uint64_t seed[2])
{
    return (uint32_t)also(seed, 0, path, strrchr(path, '/') - path);
}

struct body_hashes body_hash(const struct body *body, const uint64_t seed[2])
{
    const struct portus_pool_body *head = body->head;
    size_t name = strrchr(body->path, '/') - body->path;
    struct body_hashes hashes;
    uint64_t hash = begin_hash(seed, head->owner, head->handle_type, head->file_system);

    hashes.key = also(seed, hash, body->handle, head->handle_bytes);
    hash = also(seed, 0, body->path, name);
    hashes.directory = (uint32_t)hash;
    hash = also(seed, hash, &head->owner, sizeof(head->owner));
    hash = also(seed, hash, head->file_system, sizeof(head->file_system));
    hashes.directory |= also(seed, hash, body->job, head->job_bytes) << 32;
    hashes.path = also(seed, hashes.directory, body->path + name, head->path_bytes - name);
    return hashes;
}

void body_free(struct body *body)
{
    free(body->head);
    memset(body, 0, sizeof(*body));
}
