/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.c -- which of a device's memory ends in checkpoints
 *
 * Guesses from what was before: a wrong one costs a mapping, or is a copy by the CPU. The
 * tables are short, and what is old is overwritten.
 */
#include "origin.h"

#include <string.h>

#include "common/futex.h"

#define COPIES 1024
#define RANGES 4096

static struct portus_lock lock;

static struct copy {
    uintptr_t to;
    uint64_t from, length;
} copies[COPIES];
static unsigned copied; /* the next place, unless it is not taken yet */

static struct range {
    uint64_t from, to; /* from == to: none */
} ranges[RANGES];
static _Atomic unsigned learned; /* the next place */

void origin_copied(const void *to, uint64_t from, size_t length)
{
    portus_lock(&lock);
    copies[copied++ % COPIES] = (struct copy){(uintptr_t)to, from, length};
    portus_unlock(&lock);
}

static struct range *covering(uint64_t from, uint64_t to)
{
    unsigned used = learned < RANGES ? learned : RANGES;

    for (unsigned i = 0; i < used; i++)
        if (ranges[i].from <= from && to <= ranges[i].to && from < to)
            return &ranges[i];
    return NULL;
}

static void learn(uint64_t from, uint64_t to)
{
    if (covering(from, to) != NULL)
        return;
    ranges[learned % RANGES] = (struct range){from, to};
    learned++;
}

void origin_written(const void *data, size_t length)
{
    uintptr_t start = (uintptr_t)data, end = start + length;
    unsigned count = copied < COPIES ? copied : COPIES;

    if (count == 0)
        return;
    portus_lock(&lock);
    for (unsigned i = 0; i < count; i++)
        if (copies[i].length != 0 && copies[i].to < end &&
            start < copies[i].to + copies[i].length) {
            learn(copies[i].from, copies[i].from + copies[i].length);
            copies[i].length = 0;
        }
    portus_unlock(&lock);
}

bool origin_saved(uint64_t from, size_t length)
{
    bool saved;

    if (learned == 0)
        return false;
    portus_lock(&lock);
    saved = covering(from, from + length) != NULL;
    portus_unlock(&lock);
    return saved;
}

void origin_unsaved(uint64_t from, size_t length)
{
    struct range *range;

    portus_lock(&lock);
    while ((range = covering(from, from + length)) != NULL)
        range->to = range->from;
    portus_unlock(&lock);
}

void origin_forget(void)
{
    memset(&lock, 0, sizeof(lock));
    memset(copies, 0, sizeof(copies));
    copied = 0;
    learned = 0;
}
