/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.h -- copies into the ring past the cache
 *
 * What is captured is read next by the drain, on another core and later: it
 * would only evict the program's own lines. Non-temporal stores also save
 * reading the destination. Four pages are filled side by side, which keeps four
 * write-combining streams and their translations busy.
 */
#ifndef PORTUS_COPY_H
#define PORTUS_COPY_H

#include <stddef.h>
#include <stdint.h>

/* The ways to copy; the best that this processor has is taken unless told otherwise. */
enum portus_copy_kind {
    PORTUS_COPY_BEST = 0,
    PORTUS_COPY_PLAIN = 1, /* memcpy */
    PORTUS_COPY_AVX2 = 2,
    PORTUS_COPY_AVX512 = 3,
};

/*
 * Copies length bytes from source to destination, which must not overlap; any
 * alignment. The bytes are visible to whoever sees a store that the caller makes
 * with release order afterwards. Thread-safe, async-signal-safe.
 */
void portus_copy(void *destination, const void *source, size_t length);

/*
 * The same, and returns the CRC-32 (zip, gzip: reflected 0xEDB88320) of the
 * bytes, continued from crc (0 to begin), reading them from memory once.
 */
uint32_t portus_copy_crc(void *destination, const void *source, size_t length, uint32_t crc);

/* CRC-32 of length bytes at data, continued from crc (0 to begin). */
uint32_t portus_crc32(uint32_t crc, const void *data, size_t length);

/* Whether this processor can do kind; and portus_copy by that very kind, for tests. */
int portus_copy_has(enum portus_copy_kind kind);
void portus_copy_by(enum portus_copy_kind kind, void *destination, const void *source,
                    size_t length);

#endif
