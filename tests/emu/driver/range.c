/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * range.c -- which memory an address belongs to: a sorted array of all that the driver knows
 */
#include <string.h>

#include "emu.h"

static struct range *ranges;
static size_t count, room;

/* The index of the first range that ends behind the address. */
static size_t position(uintptr_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ranges[middle].base + ranges[middle].size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct range *emu_range_overlaps(uintptr_t address, size_t size)
{
    size_t i = position(address);

    return i < count && ranges[i].base < address + size ? &ranges[i] : NULL;
}

struct range *emu_range_find(uintptr_t address)
{
    return emu_range_overlaps(address, 1);
}

CUresult emu_range_add(const struct range *range)
{
    static uint64_t id;
    size_t i = position(range->base);

    if (count == room) {
        size_t more = room ? 2 * room : 64;
        struct range *larger = realloc(ranges, more * sizeof(*ranges));

        if (!larger)
            return CUDA_ERROR_OUT_OF_MEMORY;
        ranges = larger;
        room = more;
    }
    memmove(&ranges[i + 1], &ranges[i], (count - i) * sizeof(*ranges));
    ranges[i] = *range;
    ranges[i].id = ++id;
    count++;
    return CUDA_SUCCESS;
}

void emu_range_remove(uintptr_t base)
{
    size_t i = position(base);

    if (i == count || ranges[i].base != base)
        return;
    count--;
    memmove(&ranges[i], &ranges[i + 1], (count - i) * sizeof(*ranges));
}

/* Removes those of which gone() says so. */
void emu_range_each(bool (*gone)(struct range *, void *), void *argument)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!gone(&ranges[i], argument))
            ranges[kept++] = ranges[i];
    count = kept;
}

uintptr_t emu_range_gap(uintptr_t from, uintptr_t to, size_t size)
{
    for (size_t i = position(from); size <= to - from; i++) {
        if (i == count || ranges[i].base >= to || ranges[i].base - from >= size)
            return i < count && ranges[i].base < from + size && ranges[i].base >= from ? 0 : from;
        from = emu_whole_pages(ranges[i].base + ranges[i].size);
        if (from > to)
            break;
    }
    return 0;
}

char *emu_reach(CUcontext context, uintptr_t address, size_t size)
{
    struct range *range = emu_range_find(address);
    uintptr_t end = address + size;

    if (!range || end < address) /* a copy may: the CPU does it */
        return context || end < address ? NULL : (char *)address;
    char *access = range->access + (address - range->base);
    enum range_kind kind = range->kind;

    /*
     * A copy may not go beyond what it begins in, not into a block or a registration right behind
     * it either; only what is mapped piece by piece is one to who uses it.
     */
    for (;;) {
        if (range->kind == RESERVED || range->kind != kind)
            return NULL;
        if (context && range->kind == DEVICE && !emu_reaches(context, range->device))
            return NULL;
        uintptr_t next = range->base + range->size;
        char *expected = range->access + range->size;

        if (end <= next)
            return access;
        if (!range->mapped)
            return NULL;
        range = emu_range_find(next);
        if (!range || !range->mapped || range->access != expected)
            return NULL;
    }
}

char *emu_reach_at_work(CUcontext context, uintptr_t address, size_t size)
{
    char *access;

    pthread_mutex_lock(&emu_lock);
    access = emu_reach(context, address, size);
    pthread_mutex_unlock(&emu_lock);
    return access;
}
