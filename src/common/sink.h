/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sink.h -- a file that several processes append lines to: the log, the trace
 *
 * A line is one write(2), so lines of several processes and threads do not mix.
 */
#ifndef PORTUS_SINK_H
#define PORTUS_SINK_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct portus_sink {
    const char *head;  /* what the file begins with, or NULL */
    atomic_bool named; /* path is set */
    atomic_flag opening;
    atomic_int fd;
    _Atomic uint64_t device, inode; /* of the file behind fd */
    char path[PATH_MAX];
};

/* The initial value of one. */
#define PORTUS_SINK                                                                                \
    {                                                                                              \
        .opening = ATOMIC_FLAG_INIT, .fd = -1                                                      \
    }

/* Where to; NULL: nowhere. The string is copied, and made absolute. Keeps no errno. */
void portus_sink_set(struct portus_sink *sink, const char *path);

bool portus_sink_named(const struct portus_sink *sink);

/* Opens the file if it is not. False: the line is not written, or there is no file. */
bool portus_sink_write(struct portus_sink *sink, const char *line, size_t length);

/* write(2) that never ends the program by a signal. */
bool portus_write_quietly(int fd, const char *line, size_t length);

#endif
