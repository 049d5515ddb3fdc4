// SPDX-License-Identifier: BSD-3-Clause
/*
 * text.c -- text for people: sizes, times, and names that may contain anything
 *
 * Characters are judged after decoding, since a terminal that reads UTF-8 takes
 * U+0080 to U+009F for controls (U+009B is an escape sequence's beginning), and
 * U+202E makes a name read backwards.
 */
#include "ctl/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_prints(uint32_t rune)
{
    return rune >= 0x20 && (rune < 0x7f || rune >= 0xa0) && /* controls */
           rune != 0x61c && rune != 0x200e && rune != 0x200f && (rune < 0x2028 || rune > 0x202e) &&
           (rune < 0x2066 || rune > 0x2069) && /* directions, separators */
           rune != 0xfeff && rune != PORTUS_RUNE_BAD;
}

char *text_safe(char *out, size_t room, const char *text)
{
    size_t used = 0;

    while (*text) {
        char piece[TEXT_ROOM(4)];
        size_t length = 0;
        uint32_t rune;
        unsigned bytes = portus_rune(text, &rune);

        if (rune == '\\') {
            length = (size_t)sprintf(piece, "\\\\");
        } else if (rune == '\n' || rune == '\t') {
            length = (size_t)sprintf(piece, "\\%c", rune == '\n' ? 'n' : 't');
        } else if (text_prints(rune)) {
            memcpy(piece, text, bytes);
            length = bytes;
        } else {
            for (unsigned i = 0; i < bytes; i++)
                length += (size_t)sprintf(piece + length, "\\x%02x", (unsigned char)text[i]);
        }
        if (used + length >= room)
            break;
        memcpy(out + used, piece, length);
        used += length;
        text += bytes;
    }
    out[used] = 0;
    return out;
}

char *text_bytes(char *out, uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned i = 0;

    while (value >= 1024 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
        value /= 1024;
        i++;
    }
    if (i > 0 && value >= 1023.5 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
        value /= 1024; /* "1.00 GiB" rather than "1024 MiB" */
        i++;
    }
    snprintf(out, TEXT_BYTES, "%.*f %s",
             i == 0 || value >= 100 ? 0
             : value >= 10          ? 1
                                    : 2,
             value, unit[i]);
    return out;
}

char *text_span(char *out, uint64_t ns)
{
    uint64_t s = ns / 1000000000;

    if (s < 10)
        snprintf(out, TEXT_SPAN, "%.1f s", (double)ns / 1e9);
    else if (s < 60)
        snprintf(out, TEXT_SPAN, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(out, TEXT_SPAN, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, TEXT_SPAN, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(out, TEXT_SPAN, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
    return out;
}

const char *text_errno(uint32_t error)
{
    return error > 0 && error < 4096 ? strerror((int)error) : "an error that is no errno";
}

int text_size(uint64_t *bytes, const char *text)
{
    static const char units[] = "KMGT";
    const char *unit;
    unsigned shift = 0;
    char *end;

    errno = 0;
    *bytes = strtoull(text, &end, 10);
    if (errno || end == text || text[0] == '-')
        return -EINVAL;
    if (*end && (unit = strchr(units, *end & ~0x20)) != NULL) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if (*end || *bytes == 0 || *bytes > UINT64_MAX >> shift)
        return -EINVAL;
    *bytes <<= shift;
    return 0;
}
