/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.h -- descriptors of ours in a program's table: out of its way, and known
 *
 * They have high numbers, as programs expect small ones, or have few. Whoever puts the
 * program's own descriptors under numbers of its choice must not hit them: they come and go
 * under a lock, and somebody is told.
 */
#ifndef PORTUS_DESCRIPTOR_H
#define PORTUS_DESCRIPTOR_H

#include <stdbool.h>

#include "common/futex.h"

#define PORTUS_HIGH_DESCRIPTOR 512

/* Held while one comes or goes. */
extern struct portus_lock portus_descriptors;

/* Told, with the lock held, that fd is ours now, or is about to be closed; NULL: nobody is. */
extern void (*portus_descriptor_told)(int fd, bool ours);

/* A copy of fd, close-on-exec. Or a negative errno. */
int portus_descriptor_copy(int fd);

/* Moves fd out of the way. Its new number, or a negative errno: it is closed. */
int portus_descriptor_raise(int fd);

/* Closes *fd, if it is none of -1 and below; -1 from then on. */
void portus_descriptor_close(int *fd);

#endif
