/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * summary.h -- what the shim did, counted, and told at the end
 */
#ifndef PORTUS_PRELOAD_SUMMARY_H
#define PORTUS_PRELOAD_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

void summary_waited(uint64_t nanoseconds); /* in publishing calls and at the end */
void summary_captured_file(void);
void summary_captured(uint64_t bytes, uint64_t nanoseconds);
void summary_referred(uint64_t bytes);                    /* of these: no CPU copied them */
void summary_plain(uint64_t bytes, uint64_t nanoseconds); /* a sampled write */
void summary_refused(enum verdict verdict);
void summary_share(struct portus_control *control); /* what it has not been told of */
void summary_would(void);                           /* PORTUS=report */
void summary_forget(void);

/* Whether the next save is to be left plain, for comparison. */
bool summary_sample(void);

/* The block on standard error, if it was asked for. */
void summary_print(void);

#endif
