/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.c -- CRC-32: polynomial 0x04C11DB7, reflected 0xEDB88320, as zip and gzip use it
 *
 * Not here: the copy with it (copy.c); combining the CRCs of two buffers.
 *
 * The method is from Gopal, Ozturk, Guilford and others, "Fast CRC Computation
 * for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009). Bits are a
 * polynomial over GF(2), and the CRC is its remainder modulo P. So 16 bytes may
 * be replaced by anything congruent d bits further on,
 *
 *     first 8 bytes * (x^(d+64) mod P) + second 8 bytes * (x^d mod P)
 *
 * which takes two carry-less multiplications; the result, of 96 bits, is added
 * (xor) to the 16 bytes that stand there. Bits being reflected, a product comes
 * out one bit low, and a remainder of 32 bits stands in the upper half of 64: so
 * the factors are x^(d+32) and x^(d-32) mod P, bit-reversed, shifted left by one.
 *
 * Accumulators that were folded side by side end as 16 or 256 bytes congruent to
 * all before, which are a message themselves: the next narrower way sums them.
 * The last one is the table, eight bytes a step, so no other reduction is needed.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/copy_kinds.h"

#define POLYNOMIAL 0xEDB88320u

/*
 * table[k][b]: b followed by k zero bytes. Filled at first use, by each thread
 * that finds it unfinished, always with the same values: so nobody waits.
 */
static _Atomic uint32_t table[8][256];
static atomic_bool table_ready;

static uint32_t entry(unsigned zeros, uint8_t byte)
{
    return atomic_load_explicit(&table[zeros][byte], memory_order_relaxed);
}

static void fill_table(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        atomic_store_explicit(&table[0][byte], crc, memory_order_relaxed);
    }
    for (unsigned zeros = 1; zeros < 8; zeros++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t crc = entry(zeros - 1, byte);

            crc = crc >> 8 ^ entry(0, crc);
            atomic_store_explicit(&table[zeros][byte], crc, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&table_ready, true, memory_order_release);
}

static uint32_t by_table(uint32_t sum, const unsigned char *data, size_t length)
{
    if (!atomic_load_explicit(&table_ready, memory_order_acquire))
        fill_table();
    for (; length >= 8; length -= 8, data += 8) {
        uint64_t word;

        memcpy(&word, data, 8); /* little-endian */
        word ^= sum;
        sum = entry(7, word) ^ entry(6, word >> 8) ^ entry(5, word >> 16) ^ entry(4, word >> 24) ^
              entry(3, word >> 32) ^ entry(2, word >> 40) ^ entry(1, word >> 48) ^
              entry(0, word >> 56);
    }
    for (; length > 0; length--)
        sum = sum >> 8 ^ entry(0, sum ^ *data++);
    return sum;
}

#if defined(__x86_64__)

#define LEAST 32  /* bytes: below, the table is as fast */
#define NARROW 64 /* bytes a step: four accumulators of 16 */
#define WIDE 256  /* four of 64 */

__attribute__((target("pclmul"))) static uint32_t by_pclmul(uint32_t sum, const unsigned char *data,
                                                            size_t length)
{
    const __m128i factors = _mm_set_epi64x(FOLD_64), next = _mm_set_epi64x(FOLD_16);
    unsigned char rest[16];
    __m128i sums[4], all;

    if (length < LEAST)
        return by_table(sum, data, length);
    if (length < 2 * NARROW) {
        all = _mm_loadu_si128((const __m128i *)data);
        all = _mm_xor_si128(all, _mm_cvtsi32_si128(sum));
        data += 16;
        length -= 16;
    } else {
        for (int i = 0; i < 4; i++)
            sums[i] = _mm_loadu_si128((const __m128i *)data + i);
        sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(sum));
        for (data += NARROW, length -= NARROW; length >= NARROW; data += NARROW, length -= NARROW)
            for (int i = 0; i < 4; i++)
                sums[i] = _mm_xor_si128(fold_16(sums[i], factors),
                                        _mm_loadu_si128((const __m128i *)data + i));
        all = sums[0];
        for (int i = 1; i < 4; i++)
            all = _mm_xor_si128(fold_16(all, next), sums[i]);
    }
    for (; length >= 16; data += 16, length -= 16)
        all = _mm_xor_si128(fold_16(all, next), _mm_loadu_si128((const __m128i *)data));
    _mm_storeu_si128((__m128i *)rest, all);
    return by_table(by_table(0, rest, sizeof(rest)), data, length);
}

__attribute__((target("avx512f,vpclmulqdq"))) static uint32_t
by_vpclmul(uint32_t sum, const unsigned char *data, size_t length)
{
    const __m512i factors = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_256));
    unsigned char rest[WIDE]; /* length: two of them at least */
    __m512i sums[4];

    for (int i = 0; i < 4; i++)
        sums[i] = _mm512_loadu_si512(data + 64 * i);
    sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(sum)));
    for (data += WIDE, length -= WIDE; length >= WIDE; data += WIDE, length -= WIDE)
        for (int i = 0; i < 4; i++)
            sums[i] =
                _mm512_xor_si512(fold_64(sums[i], factors), _mm512_loadu_si512(data + 64 * i));
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(rest + 64 * i, sums[i]);
    return by_pclmul(by_pclmul(0, rest, WIDE), data, length);
}

#endif

uint32_t crc_sum_by(enum portus_copy_kind kind, uint32_t sum, const void *data, size_t length)
{
    if (kind == PORTUS_COPY_BEST)
        kind = copy_sum_best();
#if defined(__x86_64__)
    if (kind == PORTUS_COPY_AVX512 && length >= 2 * WIDE)
        return by_vpclmul(sum, data, length);
    if (kind >= PORTUS_COPY_AVX2)
        return by_pclmul(sum, data, length);
#endif
    return by_table(sum, data, length);
}

uint32_t portus_crc32(uint32_t crc, const void *data, size_t length)
{
    return ~crc_sum_by(PORTUS_COPY_BEST, ~crc, data, length);
}
