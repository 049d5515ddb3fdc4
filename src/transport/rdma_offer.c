/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_offer.c -- a client's end: its rings, opened to the store step by step, and pushes
 *
 * A ring is registered in steps, each when the store first wants bytes of it, and stays so until
 * the ring is withdrawn. Before 6.2 the kernel pins no memory for a device that is mapped
 * read-only and shared, so a ring is mapped for writing, too; the store may only read.
 *
 * A ring that is withdrawn stays registered until the store has said that it reads it no more. If
 * it does not say so in time the link is broken off: then it cannot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "portus/ring.h"
#include "transport/rdma.h"

#define STEP (64ull << 20)
#define LEAVE_NS 2000000000ull

/* ---- rings ---- */

static void shut(struct lane *lane, struct rdma_ring *ring)
{
    for (unsigned i = 0; i < ring->count && lane->link != NULL; i++)
        rdma_ops->withdraw(lane->link, &ring->opened[i].source);
    ring->count = 0;
}

static void drop(struct lane *lane, struct rdma_ring **at)
{
    struct rdma_ring *ring = *at;

    *at = ring->next;
    shut(lane, ring);
    munmap(ring->base, ring->mapped);
    close(ring->fd);
    free(ring->opened);
    free(ring);
}

int rdma_offer(struct lane *lane, struct transport_source *source)
{
    struct rdma_ring *ring = calloc(1, sizeof(*ring));
    char path[40];
    void *base;
    int error;

    if (ring == NULL)
        return -ENOMEM;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", source->fd);
    ring->id = source->id;
    ring->mapped = PORTUS_RING_DATA + PORTUS_RING_MAX;
    ring->fd = open(path, O_RDWR | O_CLOEXEC);
    if (ring->fd < 0) {
        error = -errno;
        free(ring);
        return error;
    }
    base =
        mmap(NULL, ring->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, ring->fd, 0);
    if (base == MAP_FAILED) {
        error = -errno;
        close(ring->fd);
        free(ring);
        return error;
    }
    ring->base = base;
    ring->next = lane->rings;
    lane->rings = ring;
    return 0;
}

static struct rdma_ring **find(struct lane *lane, uint32_t id, bool leaving)
{
    struct rdma_ring **at = &lane->rings;

    while (*at != NULL && ((*at)->id != id || ((*at)->leaving != 0) != leaving))
        at = &(*at)->next;
    return at;
}

void rdma_unoffer(struct lane *lane, struct transport_source *source)
{
    struct rdma_ring **at = find(lane, source->id, false);

    if (*at == NULL)
        return;
    if ((*at)->count == 0) {
        drop(lane, at);
        return;
    }
    (*at)->leaving = portus_now();
    if (rdma_say(lane, PORTUS_OP_RDMA_GONE, source->id, 0) != 0)
        lane->failed = -ECONNRESET;
}

void rdma_hear_left(struct lane *lane, uint32_t ring)
{
    struct rdma_ring **at = find(lane, ring, true);

    if (*at != NULL)
        drop(lane, at);
}

/* Opens what lies around offset. 0 or a negative errno. */
static int open_step(struct lane *lane, struct rdma_ring *ring, uint64_t offset, uint64_t length,
                     struct portus_rdma_step *step)
{
    struct rdma_opened *opened;
    struct stat status;
    char why[VERBS_WHY] = "";
    uint64_t end;
    int error;

    if (fstat(ring->fd, &status) < 0 || offset > (uint64_t)status.st_size ||
        length > (uint64_t)status.st_size - offset)
        return -ESTALE;
    end = (offset / STEP + 1) * STEP;
    end = end < (uint64_t)status.st_size ? end : (uint64_t)status.st_size;
    offset = offset / STEP * STEP;
    if (ring->count == ring->room) {
        unsigned room = ring->room * 2 + 16;

        opened = realloc(ring->opened, room * sizeof(*opened));
        if (opened == NULL)
            return -ENOMEM;
        ring->opened = opened;
        ring->room = room;
    }
    opened = &ring->opened[ring->count];
    opened->offset = offset;
    opened->length = end - offset;
    error = rdma_ops->expose(lane->link, ring->base + offset, end - offset, &opened->source, why);
    if (error != 0) {
        rdma_fail(lane, error, why);
        return error;
    }
    ring->count++;
    *step = rdma_step_of(offset, end - offset, &opened->source);
    return 0;
}

/* ---- pushes ---- */

static int open_slots(struct lane *lane, struct portus_rdma_step *step)
{
    const size_t length = (size_t)PORTUS_RDMA_PUSHES * PORTUS_RDMA_SLOT;
    char why[VERBS_WHY] = "";
    void *memory;
    int error;

    if (lane->slots == NULL) {
        memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return -errno;
        lane->slots = memory;
    }
    error = rdma_ops->lend(lane->link, lane->slots, length, &lane->slots_at, why);
    if (error != 0) {
        rdma_fail(lane, error, why);
        return error;
    }
    *step = rdma_step_of(0, length, &lane->slots_at);
    return 0;
}

/* Whatever the store wrote there: it is checked, and by who gets it, too. */
static int take(struct lane *lane)
{
    const uint8_t *slot =
        lane->slots + (size_t)(lane->taken % PORTUS_RDMA_PUSHES) * PORTUS_RDMA_SLOT;
    struct portus_message message;

    memcpy(&message, slot, sizeof(message));
    if (message.op != PORTUS_OP_STORE_BYTES || message.flags > TRANSPORT_PUSH)
        return -EPROTO;
    lane->client->pushed(lane->client->self, &message, slot + sizeof(message),
                         message.error == 0 ? message.flags : 0);
    lane->come[lane->taken % PORTUS_RDMA_PUSHES] = false;
    lane->taken++;
    return 0;
}

/* ---- */

int rdma_hear_want(struct lane *lane, const struct portus_message *message)
{
    struct portus_message answer = {
        .op = PORTUS_OP_RDMA_STEP, .value = message->value, .time = message->time};
    struct portus_rdma_step step;
    struct rdma_ring *ring;

    if (lane->link == NULL || rdma_ops->state(lane->link) != VERBS_READY)
        return 0; /* of a link that has broken meanwhile: it asks again by the next one */
    if (message->time == PORTUS_RDMA_FILE)
        return rdma_file_want(lane, message);
    if (message->time == PORTUS_RDMA_SLOTS) {
        answer.error = open_slots(lane, &step);
    } else {
        ring = *find(lane, message->value, false);
        answer.size = message->size;
        answer.error = message->size > PORTUS_RING_DATA + PORTUS_RING_MAX || ring == NULL
                           ? -ESTALE
                           : open_step(lane, ring, message->size, message->flags, &step);
    }
    return wire_send(lane->wire, &answer, answer.error == 0 ? &step : NULL,
                     answer.error == 0 ? sizeof(step) : 0);
}

void rdma_offer_turn(struct lane *lane)
{
    uint64_t now = portus_now();
    uint32_t number;

    for (const struct rdma_ring *ring = lane->rings; ring != NULL && lane->link != NULL;
         ring = ring->next)
        if (ring->leaving != 0 && now - ring->leaving > LEAVE_NS)
            rdma_ops->break_off(lane->link, -ETIMEDOUT,
                                "the store does not say that it reads a ring no more");
    while (lane->link != NULL && rdma_ops->pushed(lane->link, &number)) {
        if (lane->slots == NULL || number - lane->taken >= PORTUS_RDMA_PUSHES)
            lane->failed = -EPROTO;
        else
            lane->come[number % PORTUS_RDMA_PUSHES] = true;
    }
    /* By several queue pairs they come in any order. */
    while (lane->failed == 0 && lane->come[lane->taken % PORTUS_RDMA_PUSHES])
        lane->failed = take(lane);
    if (lane->failed == 0 && lane->told != lane->taken)
        lane->failed = rdma_say(lane, PORTUS_OP_RDMA_TAKEN, lane->told = lane->taken, 0);
}

void rdma_offer_reset(struct lane *lane)
{
    rdma_file_offer_reset(lane);
    for (struct rdma_ring **at = &lane->rings; *at != NULL;) {
        (*at)->count = 0; /* their keys went with the link */
        if ((*at)->leaving != 0)
            drop(lane, at);
        else
            at = &(*at)->next;
    }
}

void rdma_offer_end(struct lane *lane)
{
    while (lane->rings != NULL)
        drop(lane, &lane->rings);
    if (lane->slots != NULL)
        munmap(lane->slots, (size_t)PORTUS_RDMA_PUSHES * PORTUS_RDMA_SLOT);
    if (lane->places != NULL)
        munmap(lane->places, (size_t)PORTUS_RDMA_PIECES * TRANSPORT_READ);
}
