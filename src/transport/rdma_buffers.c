/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_buffers.c -- a store's registered memory for what is under way: buffers that all lanes share
 *
 * A peer that does not answer keeps what it has until its link is broken, ten seconds later. So
 * nobody gets all: a lane gets one more only as long as more are free than its user has, and it
 * itself. Whoever comes later finds some free, however many there are of who came before.
 */
#include <errno.h>
#include <sys/mman.h>

#include "transport/rdma.h"

static struct kind {
    const unsigned count;
    const size_t size;
    uint8_t *memory;
    const struct lane *of[RDMA_BUFFERS]; /* NULL: free */
} kinds[] = {
    [RDMA_FOR_READ] = {.count = RDMA_BUFFERS, .size = TRANSPORT_READ},
    [RDMA_FOR_PUSH] = {.count = RDMA_BUFFERS, .size = PORTUS_RDMA_SLOT},
};

int rdma_buffers_begin(struct verbs *verbs, char *why)
{
    const size_t reads = kinds[RDMA_FOR_READ].count * kinds[RDMA_FOR_READ].size,
                 all = reads + kinds[RDMA_FOR_PUSH].count * kinds[RDMA_FOR_PUSH].size;
    void *memory;
    int error;

    if (kinds[RDMA_FOR_READ].memory != NULL)
        return 0;
    memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    error = rdma_ops->keep(verbs, memory, all, why);
    if (error != 0) {
        munmap(memory, all);
        return error;
    }
    kinds[RDMA_FOR_READ].memory = memory;
    kinds[RDMA_FOR_PUSH].memory = (uint8_t *)memory + reads;
    return 0;
}

unsigned rdma_buffer_take(const struct lane *lane, enum rdma_use use)
{
    struct kind *kind = &kinds[use];
    unsigned buffer = RDMA_BUFFERS, free = 0, has = 0;

    for (unsigned i = kind->count; i-- > 0;) {
        const struct lane *of = kind->of[i];

        if (of == NULL) {
            buffer = i;
            free++;
        } else {
            has += (of->owner == lane->owner) + (of == lane);
        }
    }
    if (has >= free)
        return RDMA_BUFFERS;
    kind->of[buffer] = lane;
    return buffer;
}

void rdma_buffer_give(enum rdma_use use, unsigned buffer)
{
    if (buffer < RDMA_BUFFERS)
        kinds[use].of[buffer] = NULL;
}

uint8_t *rdma_buffer(enum rdma_use use, unsigned buffer)
{
    return kinds[use].memory + buffer * kinds[use].size;
}
