/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.h -- what portusd tells of itself, by HTTP on loopback
 */
#ifndef PORTUS_STORE_METRICS_H
#define PORTUS_STORE_METRICS_H

#include "store/state.h"

/* Listens at 127.0.0.1:port. 0 or a negative errno. */
int metrics_begin(struct store *store, unsigned port);

/* What poll(2) waits for, or -1. */
int metrics_descriptor(void);

/* Answers who has asked; also when nothing came, now and then. */
void metrics_turn(void);
void metrics_end(void);

/* take.c: that is done with a file. */
void metrics_taken(int error, uint64_t bytes);

#endif
