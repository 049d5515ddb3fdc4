/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.c -- what can be read of a client on another machine: rings, and files that it hands over
 *
 * Whoever wants bytes asks, and is told when they are there; the memory of a question stays
 * until it was answered or the connection is gone, whoever has lost interest meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/futex.h"
#include "common/host.h"
#include "store/far.h"
#include "store/state.h"

/* ---- sources ---- */

static void forget(struct far_source *source)
{
    if (source->far != NULL)
        for (struct far_source **at = &source->far->sources; *at != NULL; at = &(*at)->next)
            if (*at == source) {
                *at = source->next;
                break;
            }
    free(source);
}

/* What a client owes an answer, in all; by when is looked at by far_step. */
static void owes(struct far *far)
{
    if (far->reads++ == 0)
        far->reads_since = portus_now();
}

static void owes_less(struct far *far)
{
    far->reads--;
    far->reads_since = far->reads > 0 ? portus_now() : 0;
}

static void done(struct transport_read *transport, const void *bytes, int error)
{
    struct far_source *source = transport->owner;
    struct far_read *read = (struct far_read *)transport;
    struct pool_landing *landing = read->landing;

    read->busy = false;
    read->landing = NULL;
    source->under_way--;
    owes_less(source->far);
    source->calls = true;
    if (source->owner != NULL)
        source->got(source->owner, read->cookie, transport->offset, bytes, transport->length, error,
                    landing);
    else
        pool_land_drop(landing);
    source->calls = false;
    if (source->owner == NULL && source->under_way == 0)
        forget(source);
}

int far_source_open(struct far_source **out, struct far *far, enum transport_what what, uint32_t id,
                    far_got got, void *owner)
{
    struct far_source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return -ENOMEM;
    source->far = far;
    source->what = what;
    source->id = id;
    source->got = got;
    source->owner = owner;
    source->next = far->sources;
    far->sources = source;
    *out = source;
    return 0;
}

bool far_source_full(const struct far_source *source)
{
    return source->under_way == FAR_READS;
}

int far_source_read(struct far_source *source, uint64_t offset, uint32_t length, uint64_t cookie,
                    struct pool_landing *landing)
{
    struct far_read *read = source->read;
    int error;

    if (source->far == NULL)
        return -ESTALE;
    while (read < source->read + FAR_READS && read->busy)
        read++;
    if (read == source->read + FAR_READS)
        return -EAGAIN;
    read->cookie = cookie;
    read->read = (struct transport_read){.what = source->what,
                                         .id = source->id,
                                         .offset = offset,
                                         .length = length,
                                         .to = landing != NULL ? pool_landing_at(landing) : NULL,
                                         .done = done,
                                         .owner = source};
    error = source->far->kind->read(source->far->lane, &read->read);
    if (error != 0)
        return error;
    read->busy = true;
    read->landing = landing;
    source->under_way++;
    owes(source->far);
    return 0;
}

void far_source_close(struct far_source *source)
{
    if (source == NULL)
        return;
    source->owner = NULL;
    if (source->under_way == 0 && !source->calls)
        forget(source);
}

void far_sources_lose(struct far_source *sources)
{
    for (struct far_source *source = sources, *next; source != NULL; source = next) {
        next = source->next;
        source->far = NULL;
        source->under_way = 0;
        for (unsigned i = 0; i < FAR_READS; i++) {
            pool_land_drop(source->read[i].landing); /* its queue pair is gone */
            source->read[i].landing = NULL;
        }
        if (source->owner == NULL)
            free(source);
    }
}

/* ---- names ---- */

static struct timespec timespec(int64_t nanoseconds)
{
    struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};

    if (time.tv_nsec < 0) {
        time.tv_nsec += 1000000000;
        time.tv_sec--;
    }
    return time;
}

int far_name_read(struct far_name *name, const struct far *far, const void *bytes, size_t length,
                  const void **rest, size_t *rest_bytes)
{
    struct portus_far_file file;
    const char *path = (const char *)bytes + sizeof(file);

    if (length < sizeof(file))
        return -EPROTO;
    memcpy(&file, bytes, sizeof(file));
    length -= sizeof(file);
    if (file.path_bytes < 2 || file.path_bytes > PATH_MAX || file.path_bytes > length ||
        path[0] != '/' || strnlen(path, file.path_bytes) != file.path_bytes - 1 ||
        file.handle_bytes > sizeof(file.handle) || file.size > INT64_MAX || !S_ISREG(file.mode))
        return -EPROTO;
    memset(name, 0, sizeof(*name));
    memcpy(name->path, path, file.path_bytes);
    name->key.owner = wire_owner(far->wire);
    memcpy(name->key.file_system, file.file_system, sizeof(name->key.file_system));
    host_mix(name->key.file_system, far->machine);
    name->key.handle_type = file.handle_type;
    name->key.handle_bytes = file.handle_bytes;
    memcpy(name->key.handle, file.handle, file.handle_bytes);
    name->status = (struct stat){
        .st_size = (off_t)file.size,
        .st_mtim = timespec(file.mtime),
        .st_ctim = timespec(file.ctime),
        .st_mode = file.mode & ~(mode_t)(S_ISUID | S_ISGID | S_ISVTX), /* root may restore it */
        .st_uid = file.uid,
        .st_gid = file.gid,
        .st_nlink = file.links,
    };
    *rest = path + file.path_bytes;
    *rest_bytes = length - file.path_bytes;
    return 0;
}

/* ---- files ---- */

int far_file_open(struct far_file **out, struct far *far, uint32_t id, const struct far_name *name)
{
    struct far_file *file = calloc(1, sizeof(*file));

    if (file == NULL)
        return -ENOMEM;
    file->id = id;
    file->name = *name;
    /* Nobody's until it is copied: take.c puts its own function there. */
    if (far_source_open(&file->source, far, TRANSPORT_FILE, id, NULL, file) != 0) {
        free(file);
        return -ENOMEM;
    }
    file->next = far->files;
    far->files = file;
    *out = file;
    return 0;
}

void far_file_close(struct far_file *file)
{
    struct far *far = file->source->far;

    if (far != NULL)
        for (struct far_file **at = &far->files; *at != NULL; at = &(*at)->next)
            if (*at == file) {
                *at = file->next;
                break;
            }
    far_source_close(file->source);
    free(file);
}

bool far_file_gone(const struct far_file *file)
{
    return file->source->far == NULL;
}

int far_file_check(struct far_file *file)
{
    struct portus_message ask = {.op = PORTUS_OP_FAR_CHECK, .value = file->id};
    struct far *far = file->source->far;

    if (far == NULL)
        return -ESTALE;
    if (file->told)
        return file->error;
    if (!file->asked) {
        file->asked = true;
        owes(far);
        far_send(far, &ask);
    }
    return -EAGAIN;
}

int far_file_hear(struct far *far, const struct portus_message *message, const void *bytes,
                  size_t length)
{
    struct far_file *file = far->files;
    static struct far_name name;
    const void *rest;
    size_t rest_bytes;
    int error;

    if (message->error > 0 || far->reads == 0)
        return -EPROTO;
    owes_less(far);
    while (file != NULL && (file->id != message->value || !file->asked || file->told))
        file = file->next;
    if (message->error == 0) {
        error = far_name_read(&name, far, bytes, length, &rest, &rest_bytes);
        if (error != 0)
            return error;
    }
    if (file == NULL)
        return 0; /* not wanted any more */
    file->told = true;
    file->error = message->error;
    if (file->error == 0 && (memcmp(&name.key, &file->name.key, sizeof(name.key)) != 0 ||
                             name.status.st_size != file->name.status.st_size))
        file->error = -ESTALE;
    if (file->error == 0)
        file->name = name;
    return 0;
}
