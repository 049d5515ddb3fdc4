/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * space.h -- which of a row of units are taken: data units, slots
 *
 * A bitmap in memory; nothing of it is stored.
 */
#ifndef PORTUS_STORE_SPACE_H
#define PORTUS_STORE_SPACE_H

#include <stdbool.h>
#include <stdint.h>

struct space {
    uint64_t *bits; /* 1: taken */
    uint64_t units, free;
    uint64_t next;    /* where the search goes on */
    uint64_t longest; /* no free run is longer */
};

int space_open(struct space *space, uint64_t units);
void space_close(struct space *space);
int space_extend(struct space *space, uint64_t units);
void space_cut(struct space *space, uint64_t units); /* what goes must be free */

/* Takes a run of up to wanted units, a shorter one only if there is none of that length.
 * Returns how many; 0: nothing is free. */
uint64_t space_take(struct space *space, uint64_t wanted, uint64_t *first);

/* Takes wanted units in one run, or none: false. */
bool space_take_all(struct space *space, uint64_t wanted, uint64_t *first);

/* Takes these very units, or none, if one of them is taken already or does not exist: false. */
bool space_mark(struct space *space, uint64_t first, uint64_t count);

void space_give(struct space *space, uint64_t first, uint64_t count);

#endif
