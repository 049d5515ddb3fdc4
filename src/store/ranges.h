/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranges.h -- which bytes of a file are there: a set of ranges that do not touch
 *
 * Writers go forward, so there are few. Not for several threads.
 */
#ifndef PORTUS_STORE_RANGES_H
#define PORTUS_STORE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t from, to; /* bytes from <= x < to */
};

struct ranges {
    struct range *range; /* ascending; NULL where there is none */
    size_t count, room;
};

/* 0 or -ENOMEM; -EFBIG: in more pieces than anybody writes a checkpoint. */
int ranges_add(struct ranges *ranges, uint64_t from, uint64_t to);

/* The first bytes that are missing at or after at, below end; false: none. */
bool ranges_gap(const struct ranges *ranges, uint64_t at, uint64_t end, struct range *gap);

void ranges_free(struct ranges *ranges);

#endif
