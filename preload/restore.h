/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore.h -- PORTUS_RESTORE: files that were left short are completed when they are opened
 */
#ifndef PORTUS_PRELOAD_RESTORE_H
#define PORTUS_PRELOAD_RESTORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RESTORE_UNKNOWN, RESTORE_OFF, RESTORE_ON };

extern _Atomic uint32_t restore_state;

/* All that it costs a program that has not set it. */
static inline bool restore_off(void)
{
    return __builtin_expect(
        atomic_load_explicit(&restore_state, memory_order_relaxed) == RESTORE_OFF, 1);
}

/* Reads the environment if that was not done yet. */
bool restore_on(void);

/*
 * After fd was opened for reading, and before the program knows it: if the file is short,
 * completes it, and makes fd a descriptor of what is there then. Keeps errno.
 */
void restore_opened(int fd);

/* In a forked child. */
void restore_forget(void);

#endif
