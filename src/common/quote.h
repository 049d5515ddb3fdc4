/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quote.h -- text as a JSON string, whatever it contains
 */
#ifndef PORTUS_QUOTE_H
#define PORTUS_QUOTE_H

#include <stddef.h>
#include <stdint.h>

/* portus_rune() stores this where the bytes are not UTF-8. */
#define PORTUS_RUNE_BAD UINT32_MAX

/*
 * Decodes the character at text (not at its NUL). Returns the bytes that it has:
 * 1 for a byte that is not UTF-8, and *rune is PORTUS_RUNE_BAD then.
 */
unsigned portus_rune(const char *text, uint32_t *rune);

/* A byte becomes at most six: \u001f. And two quotation marks. */
#define PORTUS_QUOTE_ROOM(n) (6 * (size_t)(n) + 3)

/*
 * Writes text as a JSON string, with its quotation marks, in ASCII; what is not UTF-8 becomes
 * U+FFFD; cut where room (3 at least) ends. Returns its length. Allocates nothing.
 */
size_t portus_quote(char *out, size_t room, const char *text);

#endif
