// SPDX-License-Identifier: BSD-3-Clause
/*
 * bar.c -- a progress bar on standard error, if that is a terminal
 *
 * What is left can grow while a program goes on writing: then the bar goes back.
 */
#include "ctl/bar.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/futex.h"
#include "ctl/text.h"

#define EVERY_NS 100000000
#define CELLS 24
#define LINE 512

void bar_start(struct bar *bar)
{
    *bar = (struct bar){.terminal = isatty(STDERR_FILENO), .began_ns = portus_now()};
}

/* Cuts text, which has no control characters, to so many characters. */
static void cut(char *text, unsigned columns)
{
    uint32_t rune;

    while (*text != '\0' && columns-- > 0)
        text += portus_rune(text, &rune);
    *text = '\0';
}

void bar_draw(struct bar *bar, uint64_t done, uint64_t left, const char *waits_for)
{
    uint64_t now = portus_now();
    struct winsize window = {0};
    char line[LINE], cells[CELLS + 1], part_text[TEXT_BYTES], all_text[TEXT_BYTES],
        speed[TEXT_BYTES];
    double part;

    if (!bar->terminal || (bar->drawn && now - bar->drawn_ns < EVERY_NS))
        return;
    part = left != 0 ? (double)done / ((double)done + (double)left) : 1;
    for (unsigned i = 0; i < CELLS; i++)
        cells[i] = part * CELLS >= i + 1 ? '#' : '.';
    cells[CELLS] = '\0';
    snprintf(line, sizeof(line), "[%s] %3.0f %%  %s of %s  %s/s%s%s", cells, 100 * part,
             text_bytes(part_text, done), text_bytes(all_text, done + left),
             text_bytes(speed, (uint64_t)((double)done * 1e9 / (double)(now - bar->began_ns + 1))),
             waits_for != NULL ? "  " : "", waits_for != NULL ? waits_for : "");
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) < 0 || window.ws_col == 0)
        window.ws_col = 80;
    cut(line, window.ws_col - 1u);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    bar->drawn = true;
    bar->drawn_ns = now;
}

void bar_clear(struct bar *bar)
{
    if (bar->drawn)
        fputs("\r\033[K", stderr);
    bar->drawn = false;
}
