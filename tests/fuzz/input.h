/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input.h -- what libFuzzer's entries take their choices from, and count afterwards
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

static const uint8_t *data;
static size_t left;

/* The next bytes of the input as a number; zeros when there are none. */
static uint64_t take(unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes && left > 0; i++, left--)
        value = value << 8 | *data++;
    return value;
}

/* That this process has open, one for each and some more. */
static inline unsigned descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

#endif
