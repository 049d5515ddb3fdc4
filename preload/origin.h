/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.h -- which of a device's memory ends in checkpoints
 *
 * Some programs copy what they save to the host before they open a file. What was written to a
 * checkpoint once, after a copy from there, is taken for a save the next time.
 */
#ifndef PORTUS_PRELOAD_ORIGIN_H
#define PORTUS_PRELOAD_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A device's memory was copied to the host's. */
void origin_copied(const void *to, uint64_t from, size_t length);

/* The host's memory was written to a checkpoint. */
void origin_written(const void *data, size_t length);

/* Whether a device's memory was copied and written before. */
bool origin_saved(uint64_t from, size_t length);

/* It was copied and not written: no more. */
void origin_unsaved(uint64_t from, size_t length);

/* In a forked child. */
void origin_forget(void);

#endif
