/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h -- text for people: sizes, times, and names that may contain anything
 *
 * Paths and program names come from memory that other processes write. On a
 * terminal their control characters would be commands, so nothing from there is
 * printed but through text_safe() or json_text().
 */
#ifndef PORTUS_CTL_TEXT_H
#define PORTUS_CTL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/quote.h"

/* What text_safe() needs at most for a string of n bytes. */
#define TEXT_ROOM(n) (4 * (size_t)(n) + 1)

/* Whether a character can be printed: no control, no change of direction, no separator. */
bool text_prints(uint32_t rune);

/*
 * Copies text so that it is one line and harmless: what does not print becomes
 * \n, \t or \x1b, a backslash becomes two. Cut where room ends. Returns out.
 */
char *text_safe(char *out, size_t room, const char *text);

/* "512 B", "1.5 KiB", "640 MiB", "1.25 GiB". Returns out. */
#define TEXT_BYTES 16
char *text_bytes(char *out, uint64_t bytes);

/* "0.3 s", "45 s", "3 min 5 s", "2 h 3 min", "4 d 2 h". Returns out. */
#define TEXT_SPAN 32
char *text_span(char *out, uint64_t ns);

/* A size with K, M, G or T, not 0. Returns 0, or -EINVAL. */
int text_size(uint64_t *bytes, const char *text);

/* What an errno from shared memory means. */
const char *text_errno(uint32_t error);

#endif
