/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beginning.h -- what a file held before it engaged
 */
#ifndef PORTUS_PRELOAD_BEGINNING_H
#define PORTUS_PRELOAD_BEGINNING_H

#include "file.h"

struct beginning {
    char *data; /* NULL: nothing is to be logged */
    size_t length;
    uint32_t plain; /* of the file, when it was read */
};

/* Reads it before the lease is taken, if somebody will wait for the store to have all of the
 * file. */
void beginning_read(struct beginning *beginning, struct file *file, int fd);

/* Logs it when the file has engaged, unless it may have changed since; frees it in any case.
 * With the file's lock. */
void beginning_log(struct beginning *beginning, struct file *file, bool engaged);

#endif
