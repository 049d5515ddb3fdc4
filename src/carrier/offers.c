/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offers.c -- what a store on another machine may read of this one, and no more
 *
 * Rings that its agent has passed, and files that it has passed opened and leased. Of a
 * file that is still being saved (a draft) the store hears the name only.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "carrier/carrier.h"
#include "common/futex.h"
#include "common/listing.h"
#include "portus/ring.h"

#define MAPPED (PORTUS_RING_DATA + PORTUS_RING_MAX)

struct offer {
    struct offer *next;
    enum offer_kind kind;
    struct transport_source source;
};

static struct offer **find(struct offers *offers, enum offer_kind kind, uint32_t id)
{
    struct offer **at = &offers->first;

    while (*at != NULL && ((*at)->kind != kind || (*at)->source.id != id))
        at = &(*at)->next;
    return at;
}

static void let_go(struct offer *offer)
{
    if (offer->source.base != NULL)
        munmap((void *)offer->source.base, MAPPED);
    close(offer->source.fd);
    free(offer);
}

/* Withdrawn before it is closed: nothing reads what is not there. */
static void drop(struct offers *offers, struct offer **at)
{
    struct offer *offer = *at;

    *at = offer->next;
    if (offer->kind != OFFER_DRAFT)
        offers->kind->withdraw(offers->lane, &offer->source);
    let_go(offer);
}

void offers_drop(struct offers *offers, enum offer_kind kind, uint32_t id)
{
    struct offer **at = find(offers, kind, id);

    if (*at != NULL)
        drop(offers, at);
}

void offers_drop_all(struct offers *offers)
{
    while (offers->first != NULL)
        drop(offers, &offers->first);
}

int offers_find(const struct offers *offers, enum offer_kind kind, uint32_t id)
{
    const struct offer *offer = *find((struct offers *)offers, kind, id);

    return offer != NULL ? offer->source.fd : -1;
}

int offers_add(struct offers *offers, enum offer_kind kind, uint32_t id, int fd)
{
    struct offer *offer;
    void *base;
    int error = 0;

    offers_drop(offers, kind, id);
    offer = calloc(1, sizeof(*offer));
    if (offer == NULL) {
        close(fd);
        return -ENOMEM;
    }
    offer->kind = kind;
    offer->next = offers->first;
    offer->source.what = kind == OFFER_RING ? TRANSPORT_RING : TRANSPORT_FILE;
    offer->source.id = id;
    offer->source.fd = fd;
    if (kind == OFFER_RING) {
        /* It grows, and the mapping sees that; it never becomes smaller. */
        base = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
        error = base == MAP_FAILED ? -errno : 0;
        if (error == 0)
            offer->source.base = base;
    }
    if (error == 0 && kind != OFFER_DRAFT)
        error = offers->kind->offer(offers->lane, &offer->source);
    if (error != 0) {
        let_go(offer);
        return error;
    }
    offers->first = offer;
    return 0;
}

int offers_describe(int fd, int listing, void **bytes, size_t *length)
{
    struct portus_far_file *file = NULL;
    struct listing_entry entry;
    struct listing list = {0};
    struct stat status, there;
    char path[PATH_MAX + 1];
    size_t path_bytes;
    int error;

    if (fstat(fd, &status) < 0)
        return -errno;
    error = status.st_nlink == 0 ? -ENOENT : listing_handle(fd, &entry);
    if (error == 0)
        error = listing_path(fd, path, sizeof(path));
    if (error != 0)
        return error;
    /* Deleted, or moved to where it is not seen: then the path says something else. */
    if (lstat(path, &there) < 0 || there.st_dev != status.st_dev || there.st_ino != status.st_ino)
        return -ENOENT;
    if (listing >= 0)
        listing_load(&list, listing); /* without it: no state that a directory can be restored to */
    path_bytes = strlen(path) + 1;
    file = calloc(1, sizeof(*file) + path_bytes + list.length);
    if (file == NULL) {
        listing_free(&list);
        return -ENOMEM;
    }
    *file = (struct portus_far_file){
        .size = (uint64_t)status.st_size,
        .mtime = portus_nanoseconds(&status.st_mtim),
        .ctime = portus_nanoseconds(&status.st_ctim),
        .mode = status.st_mode,
        .uid = status.st_uid,
        .gid = status.st_gid,
        .links = (uint32_t)status.st_nlink,
        .handle_type = entry.handle_type,
        .handle_bytes = entry.handle_bytes,
        .path_bytes = (uint32_t)path_bytes,
    };
    memcpy(file->file_system, entry.file_system, sizeof(file->file_system));
    memcpy(file->handle, entry.handle, entry.handle_bytes);
    memcpy(file + 1, path, path_bytes);
    if (list.length > 0)
        memcpy((char *)(file + 1) + path_bytes, list.bytes, list.length);
    *bytes = file;
    *length = sizeof(*file) + path_bytes + list.length;
    listing_free(&list);
    return 0;
}
