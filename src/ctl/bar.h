/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bar.h -- a progress bar on standard error, if that is a terminal
 */
#ifndef PORTUS_CTL_BAR_H
#define PORTUS_CTL_BAR_H

#include <stdbool.h>
#include <stdint.h>

struct bar {
    bool terminal;
    bool drawn;
    uint64_t began_ns, drawn_ns;
};

void bar_start(struct bar *bar);

/*
 * Draws anew, ten times a second at most: of so many bytes `done` and `left`.
 * waits_for, if not NULL, is a safe text that says what else there is to wait for.
 */
void bar_draw(struct bar *bar, uint64_t done, uint64_t left, const char *waits_for);

/* Takes the bar away: call it before any other output. */
void bar_clear(struct bar *bar);

#endif
