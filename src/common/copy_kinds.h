/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_kinds.h -- what copy.c, copy_avx2.c, copy_avx512.c and crc.c share
 *
 * Not for others, but for their tests.
 */
#ifndef PORTUS_COPY_KINDS_H
#define PORTUS_COPY_KINDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/copy.h"

/* Pages filled side by side, and the bytes from one to the next. */
#define COPY_PAGES 4
#define COPY_PAGE 4096
#define COPY_GROUP ((size_t)COPY_PAGES * COPY_PAGE)
#define COPY_LINE 64

/*
 * Copy groups * COPY_GROUP bytes; destination is aligned to COPY_LINE. The
 * stores are weakly ordered: the caller has to fence. Only on a processor with
 * the instructions.
 */
void copy_groups_avx2(unsigned char *destination, const unsigned char *source, size_t groups);
void copy_groups_avx512(unsigned char *destination, const unsigned char *source, size_t groups);

/*
 * The same, and return the sum continued. A sum is the CRC without the inversion
 * before and after.
 */
uint32_t copy_groups_sum_avx2(unsigned char *destination, const unsigned char *source,
                              size_t groups, uint32_t sum);
uint32_t copy_groups_sum_avx512(unsigned char *destination, const unsigned char *source,
                                size_t groups, uint32_t sum);

/*
 * Whether this processor can copy and sum in the way of kind, which kind is best,
 * and portus_copy_crc by that very kind.
 */
int copy_sum_has(enum portus_copy_kind kind);
enum portus_copy_kind copy_sum_best(void);
uint32_t copy_crc_by(enum portus_copy_kind kind, void *destination, const void *source,
                     size_t length, uint32_t crc);

/*
 * The sum continued by length bytes at data: PLAIN by a table, AVX2 with PCLMULQDQ,
 * AVX512 with VPCLMULQDQ; BEST takes the best there is.
 */
uint32_t crc_sum_by(enum portus_copy_kind kind, uint32_t sum, const void *data, size_t length);

#if defined(__x86_64__)

#include <immintrin.h>

/*
 * Folding, see crc.c. Factors to carry 16 bytes forward over a distance of that
 * many bytes, as arguments of _mm_set_epi64x: of the second 8 bytes, of the first.
 */
#define FOLD_16 0x0ccaa009e, 0x1751997d0
#define FOLD_64 0x1c6e41596, 0x154442bd4
#define FOLD_256 0x1322d1430, 0x11542778a
#define FOLD_1_PAGE 0x1b3b1a484, 0x05ad8a92c
#define FOLD_2_PAGES 0x1f848d714, 0x0b566f6e2
#define FOLD_3_PAGES 0x19f01c668, 0x08c7515be

/* What 16 bytes, or each 16 of 64, become at the distance of factors. */
__attribute__((target("pclmul"))) static inline __m128i fold_16(__m128i bytes, __m128i factors)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(bytes, factors, 0x00),
                         _mm_clmulepi64_si128(bytes, factors, 0x11));
}

__attribute__((target("avx512f,vpclmulqdq"))) static inline __m512i fold_64(__m512i bytes,
                                                                            __m512i factors)
{
    return _mm512_xor_si512(_mm512_clmulepi64_epi128(bytes, factors, 0x00),
                            _mm512_clmulepi64_epi128(bytes, factors, 0x11));
}

#endif

#endif
