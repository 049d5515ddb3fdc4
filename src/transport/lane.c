/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.c -- what the kinds of lanes have in common
 *
 * The sources that a client offers by name, and the reads of a store that wait in their order.
 * How bytes go is each kind's own.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/transport.h"

const struct transport_kind *transport_find(enum portus_scheme scheme)
{
    return scheme == PORTUS_SCHEME_TCP ? &transport_tcp : &transport_rdma;
}

/* ---- sources ---- */

void transport_offer(struct transport_source **list, struct transport_source *source)
{
    source->next = *list;
    *list = source;
}

void transport_withdraw(struct transport_source **list, const struct transport_source *source)
{
    for (; *list != NULL; list = &(*list)->next)
        if (*list == source) {
            *list = source->next;
            return;
        }
}

int transport_copy(const struct transport_source *list, enum transport_what what, uint32_t id,
                   uint64_t offset, uint32_t length, void *to)
{
    struct stat status;
    ssize_t n;

    while (list != NULL && (list->what != what || list->id != id))
        list = list->next;
    if (list == NULL)
        return -ESTALE;
    if (what == TRANSPORT_RING) {
        if (fstat(list->fd, &status) < 0 || offset > (uint64_t)status.st_size ||
            length > (uint64_t)status.st_size - offset)
            return -ESTALE;
        memcpy(to, list->base + offset, length);
        return 0;
    }
    for (uint32_t done = 0; done < length; done += (uint32_t)n) {
        n = pread(list->fd, (char *)to + done, length - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
    }
    return 0;
}

/* ---- reads ---- */

void transport_put(struct transport_queue *queue, struct transport_read *read)
{
    read->next = NULL;
    if (queue->first == NULL)
        queue->first = read;
    else
        queue->last->next = read;
    queue->last = read;
}

void transport_put_back(struct transport_queue *queue, struct transport_read *read)
{
    read->next = queue->first;
    if (queue->first == NULL)
        queue->last = read;
    queue->first = read;
}

struct transport_read *transport_take(struct transport_queue *queue)
{
    struct transport_read *read = queue->first;

    queue->first = read->next;
    return read;
}
