/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash.h -- FNV-1a, 64 bit: to shorten names, not to protect anything
 *
 * http://www.isthe.com/chongo/tech/comp/fnv/
 */
#ifndef PORTUS_HASH_H
#define PORTUS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define PORTUS_HASH_EMPTY 0xcbf29ce484222325u

/* The hash of what state is the hash of, and of length more bytes at data. */
static inline uint64_t portus_hash(uint64_t state, const char *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        state = (state ^ (uint8_t)data[i]) * 0x100000001b3u;
    return state;
}

#endif
