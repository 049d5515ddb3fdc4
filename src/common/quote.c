/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quote.c -- text as a JSON string, whatever it contains
 *
 * Written inside programs that know nothing of it (log.c, trace.c): no stdio, no locale.
 */
#include "common/quote.h"

#include <string.h>

unsigned portus_rune(const char *text, uint32_t *rune)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    unsigned length = byte[0] < 0x80   ? 1
                      : byte[0] < 0xc0 ? 0
                      : byte[0] < 0xe0 ? 2
                      : byte[0] < 0xf0 ? 3
                      : byte[0] < 0xf8 ? 4
                                       : 0;
    uint32_t value = length == 1 ? byte[0] : byte[0] & (0xffu >> (length + 1));

    for (unsigned i = 1; i < length; i++) {
        if ((byte[i] & 0xc0) != 0x80) /* a NUL too */
            length = 0;
        value = value << 6 | (byte[i] & 0x3f);
    }
    if (!length || value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        value = PORTUS_RUNE_BAD;
    *rune = value;
    return value == PORTUS_RUNE_BAD ? 1 : length;
}

static size_t escape(char out[6], uint32_t unit)
{
    static const char digits[] = "0123456789abcdef";

    memcpy(out, "\\u", 2);
    for (unsigned i = 0; i < 4; i++)
        out[2 + i] = digits[unit >> (12 - 4 * i) & 15];
    return 6;
}

size_t portus_quote(char *out, size_t room, const char *text)
{
    size_t used = 0;

    out[used++] = '"';
    while (*text != '\0') {
        char piece[12];
        size_t length = 0;
        uint32_t rune;

        text += portus_rune(text, &rune);
        if (rune == PORTUS_RUNE_BAD)
            rune = 0xfffd;
        if (rune == '"' || rune == '\\' || rune == '\n' || rune == '\t') {
            piece[length++] = '\\';
            piece[length++] = rune == '\n' ? 'n' : rune == '\t' ? 't' : (char)rune;
        } else if (rune >= 0x20 && rune < 0x7f) {
            piece[length++] = (char)rune;
        } else if (rune < 0x10000) {
            length = escape(piece, rune);
        } else {
            length = escape(piece, 0xd800 + ((rune - 0x10000) >> 10));
            length += escape(piece + length, 0xdc00 + (rune & 0x3ff));
        }
        if (used + length + 2 > room)
            break;
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used++] = '"';
    out[used] = '\0';
    return used;
}
