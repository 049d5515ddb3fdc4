/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_avx2.c -- groups of four pages by non-temporal stores of 32 bytes
 *
 * Not here: ends, fences, the choice (copy.c); how folding works (crc.c).
 *
 * For the sum each page has an accumulator of its own, so that the bytes of one
 * load are both stored and summed, and four chains of multiplications run side
 * by side. At the end of a group the four are carried to its last 16 bytes.
 */
#if defined(__x86_64__)

#include "common/copy_kinds.h"

__attribute__((target("avx2"))) void copy_groups_avx2(unsigned char *destination,
                                                      const unsigned char *source, size_t groups)
{
    for (; groups > 0; groups--, destination += COPY_GROUP, source += COPY_GROUP) {
        for (size_t line = 0; line < COPY_PAGE; line += COPY_LINE) {
            for (size_t page = 0; page < COPY_PAGES; page++) {
                size_t at = page * COPY_PAGE + line;
                __m256i low = _mm256_loadu_si256((const __m256i *)(source + at));
                __m256i high = _mm256_loadu_si256((const __m256i *)(source + at + 32));

                _mm256_stream_si256((__m256i *)(destination + at), low);
                _mm256_stream_si256((__m256i *)(destination + at + 32), high);
            }
        }
    }
}

__attribute__((target("avx2,pclmul"))) uint32_t copy_groups_sum_avx2(unsigned char *destination,
                                                                     const unsigned char *source,
                                                                     size_t groups, uint32_t sum)
{
    const __m128i next = _mm_set_epi64x(FOLD_16), page1 = _mm_set_epi64x(FOLD_1_PAGE),
                  page2 = _mm_set_epi64x(FOLD_2_PAGES), page3 = _mm_set_epi64x(FOLD_3_PAGES);
    const __m128i zero = _mm_setzero_si128();
    __m128i before = _mm_cvtsi32_si128(sum), sums[COPY_PAGES] = {zero, zero, zero, zero};
    unsigned char rest[16];

    for (size_t group = 0; group < groups; group++) {
        for (size_t line = 0; line < COPY_PAGE; line += COPY_LINE) {
            for (size_t page = 0; page < COPY_PAGES; page++) {
                for (size_t half = 0; half < COPY_LINE; half += 32) {
                    size_t at = page * COPY_PAGE + line + half;
                    __m256i both = _mm256_loadu_si256((const __m256i *)(source + at));
                    __m128i low = _mm_xor_si128(_mm256_castsi256_si128(both), before);
                    __m128i high = _mm256_extracti128_si256(both, 1);

                    before = zero; /* it belongs to the very first bytes */
                    _mm256_stream_si256((__m256i *)(destination + at), both);
                    sums[page] = _mm_xor_si128(fold_16(sums[page], next), low);
                    sums[page] = _mm_xor_si128(fold_16(sums[page], next), high);
                }
            }
        }
        sums[0] = _mm_xor_si128(fold_16(sums[0], page3), fold_16(sums[1], page2));
        sums[0] = _mm_xor_si128(sums[0], _mm_xor_si128(fold_16(sums[2], page1), sums[3]));
        sums[1] = sums[2] = sums[3] = zero;
        destination += COPY_GROUP;
        source += COPY_GROUP;
    }
    if (groups == 0)
        return sum;
    _mm_storeu_si128((__m128i *)rest, sums[0]);
    return crc_sum_by(PORTUS_COPY_PLAIN, 0, rest, sizeof(rest));
}

#else
typedef int copy_avx2_nothing; /* a translation unit may not be empty */
#endif
