/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * left.c -- what an agent has not drained yet, for a person who waits for it
 */
#include "common/left.h"

#include <stdio.h>

struct portus_left portus_left(const struct portus_control *control, char text[PORTUS_LEFT_TEXT])
{
    uint64_t rate = atomic_load(&control->drain_rate);
    struct portus_left left = {0};

    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        const struct portus_session *session = &control->session[i];
        uint64_t drained = atomic_load(&session->drained);
        uint64_t captured = atomic_load(&session->captured);

        if (atomic_load(&session->state) != PORTUS_SESSION_FREE && captured > drained)
            left.bytes += captured - drained;
    }
    left.seconds = rate != 0 ? left.bytes / rate : 0;
    if (rate == 0)
        snprintf(text, PORTUS_LEFT_TEXT, "%llu MiB", (unsigned long long)(left.bytes >> 20));
    else
        snprintf(text, PORTUS_LEFT_TEXT, "%llu MiB, about %llu s at %llu MiB/s,",
                 (unsigned long long)(left.bytes >> 20), (unsigned long long)left.seconds,
                 (unsigned long long)(rate >> 20));
    return left;
}
