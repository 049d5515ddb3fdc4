/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * left.h -- what an agent has not drained yet, for a person who waits for it
 */
#ifndef PORTUS_LEFT_H
#define PORTUS_LEFT_H

#include <stddef.h>
#include <stdint.h>

#include "portus/ring.h"

#define PORTUS_LEFT_TEXT 96

struct portus_left {
    uint64_t bytes;
    uint64_t seconds; /* at the drain's rate of late; 0: less than one, or not known */
};

/* Of all sessions. Nothing that clients wrote there is trusted: it is only told. */
struct portus_left portus_left(const struct portus_control *control, char text[PORTUS_LEFT_TEXT]);

#endif
