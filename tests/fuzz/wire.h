/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h -- what is the same of each connection that brings what the input says: it is always ready
 *
 * In place of src/transport/wire.c; who includes it has the rest.
 */
#ifndef TESTS_FUZZ_WIRE_H
#define TESTS_FUZZ_WIRE_H

#include <poll.h>

#include "transport/wire.h"

static int ready; /* a descriptor that can be read */

void wire_close(struct wire *self)
{
}

int wire_descriptor(const struct wire *self)
{
    return ready;
}

short wire_events(const struct wire *self, bool *more)
{
    *more = true;
    return POLLIN;
}

const char *wire_name(const struct wire *self)
{
    return "fuzz";
}

const char *wire_peer(const struct wire *self)
{
    return "fuzz";
}

#endif
