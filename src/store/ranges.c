/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranges.c -- a sorted array; the last range is where most additions go
 */
#include "store/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST (1u << 20)

/* The first range that ends at or after offset. */
static size_t find(const struct ranges *ranges, uint64_t offset)
{
    size_t low = 0, high = ranges->count;

    if (high > 0 && ranges->range[high - 1].to < offset)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ranges->range[middle].to < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int ranges_add(struct ranges *ranges, uint64_t from, uint64_t to)
{
    size_t first = find(ranges, from), next = first;

    if (from >= to)
        return 0;
    /* All that it touches become one. */
    while (next < ranges->count && ranges->range[next].from <= to) {
        from = ranges->range[next].from < from ? ranges->range[next].from : from;
        to = ranges->range[next].to > to ? ranges->range[next].to : to;
        next++;
    }
    if (next == first && ranges->count == ranges->room) {
        size_t room = ranges->room * 2 + 16;
        struct range *more;

        if (room > MOST)
            return -EFBIG;
        more = realloc(ranges->range, room * sizeof(*more));
        if (more == NULL)
            return -ENOMEM;
        ranges->range = more;
        ranges->room = room;
    }
    memmove(ranges->range + first + 1, ranges->range + next,
            (ranges->count - next) * sizeof(*ranges->range));
    ranges->count = ranges->count - (next - first) + 1;
    ranges->range[first] = (struct range){from, to};
    return 0;
}

bool ranges_gap(const struct ranges *ranges, uint64_t at, uint64_t end, struct range *gap)
{
    size_t i = find(ranges, at);

    if (i < ranges->count && ranges->range[i].from <= at)
        at = ranges->range[i++].to;
    if (at >= end)
        return false;
    gap->from = at;
    gap->to = i < ranges->count && ranges->range[i].from < end ? ranges->range[i].from : end;
    return true;
}

void ranges_free(struct ranges *ranges)
{
    free(ranges->range);
    *ranges = (struct ranges){0};
}
