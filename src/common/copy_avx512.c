/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_avx512.c -- groups of four pages by non-temporal stores of 64 bytes
 *
 * As copy_avx2.c, a line of the cache at a time.
 */
#if defined(__x86_64__)

#include "common/copy_kinds.h"

__attribute__((target("avx512f"))) void
copy_groups_avx512(unsigned char *destination, const unsigned char *source, size_t groups)
{
    for (; groups > 0; groups--, destination += COPY_GROUP, source += COPY_GROUP) {
        for (size_t line = 0; line < COPY_PAGE; line += COPY_LINE) {
            for (size_t page = 0; page < COPY_PAGES; page++) {
                size_t at = page * COPY_PAGE + line;

                _mm512_stream_si512((void *)(destination + at), _mm512_loadu_si512(source + at));
            }
        }
    }
}

__attribute__((target("avx512f,vpclmulqdq"))) static inline __m512i in_each(__m128i factors)
{
    return _mm512_broadcast_i32x4(factors);
}

__attribute__((target("avx512f,vpclmulqdq"))) uint32_t
copy_groups_sum_avx512(unsigned char *destination, const unsigned char *source, size_t groups,
                       uint32_t sum)
{
    const __m512i next = in_each(_mm_set_epi64x(FOLD_64)),
                  page1 = in_each(_mm_set_epi64x(FOLD_1_PAGE)),
                  page2 = in_each(_mm_set_epi64x(FOLD_2_PAGES)),
                  page3 = in_each(_mm_set_epi64x(FOLD_3_PAGES));
    const __m512i zero = _mm512_setzero_si512();
    __m512i before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(sum));
    __m512i sums[COPY_PAGES] = {zero, zero, zero, zero};
    unsigned char rest[64];

    for (size_t group = 0; group < groups; group++) {
        for (size_t line = 0; line < COPY_PAGE; line += COPY_LINE) {
            for (size_t page = 0; page < COPY_PAGES; page++) {
                size_t at = page * COPY_PAGE + line;
                __m512i bytes = _mm512_loadu_si512(source + at);

                _mm512_stream_si512((void *)(destination + at), bytes);
                bytes = _mm512_xor_si512(bytes, before);
                before = zero; /* it belongs to the very first bytes */
                sums[page] = _mm512_xor_si512(fold_64(sums[page], next), bytes);
            }
        }
        sums[0] = _mm512_xor_si512(fold_64(sums[0], page3), fold_64(sums[1], page2));
        sums[0] = _mm512_xor_si512(sums[0], _mm512_xor_si512(fold_64(sums[2], page1), sums[3]));
        sums[1] = sums[2] = sums[3] = zero;
        destination += COPY_GROUP;
        source += COPY_GROUP;
    }
    if (groups == 0)
        return sum;
    _mm512_storeu_si512(rest, sums[0]);
    return crc_sum_by(PORTUS_COPY_PLAIN, 0, rest, sizeof(rest));
}

#else
typedef int copy_avx512_nothing; /* a translation unit may not be empty */
#endif
