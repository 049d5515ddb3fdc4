/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siphash.h -- SipHash-1-3: a hash whose collisions nobody can make who lacks its key
 *
 * Paths and handles come from clients: one that could make them collide could have
 * another's versions counted as superseded. (common/hash.h is for names that nobody
 * gains from colliding.)
 *
 * Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
 */
#ifndef PORTUS_STORE_SIPHASH_H
#define PORTUS_STORE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void siphash_round(uint64_t v[4])
{
#define SIPHASH_TURN(x, n) ((x) << (n) | (x) >> (64 - (n)))
    v[0] += v[1];
    v[2] += v[3];
    v[1] = SIPHASH_TURN(v[1], 13) ^ v[0];
    v[3] = SIPHASH_TURN(v[3], 16) ^ v[2];
    v[0] = SIPHASH_TURN(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = SIPHASH_TURN(v[1], 17) ^ v[2];
    v[3] = SIPHASH_TURN(v[3], 21) ^ v[0];
    v[2] = SIPHASH_TURN(v[2], 32);
#undef SIPHASH_TURN
}

static inline uint64_t siphash(const uint64_t key[2], const void *data, size_t length)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    const char *at = data;
    uint64_t word;

    for (size_t left = length;; left -= 8, at += 8) {
        word = 0;
        if (left < 8) {
            memcpy(&word, at, left);
            word |= (uint64_t)length << 56;
        } else {
            memcpy(&word, at, 8);
        }
        v[3] ^= word;
        siphash_round(v);
        v[0] ^= word;
        if (left < 8)
            break;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        siphash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
