/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_pin.h -- the ring, pinned for devices
 */
#ifndef PORTUS_PRELOAD_CUDA_PIN_H
#define PORTUS_PRELOAD_CUDA_PIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver's functions that this needs; CUDA's errors. */
struct cuda_pin_driver {
    int (*pin)(void *start, size_t length, unsigned flags);
    int (*unpin)(void *start);
};

/* Whether it is time for the next one. */
bool cuda_pin_due(void);

/*
 * Pins or unpins, if it is time for it: a context is current, nothing is being captured, and no
 * lock of ours is held. With the writer in use, and no copy of the caller's under way.
 */
void cuda_pin_turn(const struct cuda_pin_driver *driver);

/*
 * Around copies into the ring: how many bytes of its data are pinned, from the first one on. False,
 * and nothing is to be ended: that is just being changed, and no copy may go there.
 */
bool cuda_pin_begin(uint64_t *bytes);
void cuda_pin_end(void);

/* They are not any more, without us: the context was reset. */
void cuda_pin_lost(void);

/* The writer is about to be closed. Its ring stays mapped as long as it is pinned. */
void cuda_pin_leave(void);

/* In a forked child. */
void cuda_pin_forget(void);

#endif
