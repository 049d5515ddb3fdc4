/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h -- a timeline of what happened, for chrome://tracing and Perfetto
 *
 * Chrome's trace event format, its array form, of which the closing bracket may be left out:
 * all processes append to one file, an event a line. Times are CLOCK_MONOTONIC's, which they
 * share. Safe where log.h is. errno is preserved.
 */
#ifndef PORTUS_TRACE_H
#define PORTUS_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the file; "": none. process must outlive the process. Not while others trace. */
void portus_trace_setup(const char *path, const char *process);

/* As of log.h. */
void portus_trace_by(void (*by)(const char *line, size_t length));
void portus_trace_write(const char *line, size_t length);
void portus_trace_forget(void);

extern atomic_bool portus_trace_enabled;

/* Ask first: what is not traced costs no more than this. */
static inline bool portus_trace_on(void)
{
    return __builtin_expect(atomic_load_explicit(&portus_trace_enabled, memory_order_relaxed),
                            false);
}

enum portus_phase {
    PORTUS_TRACE_SPAN = 'X',    /* of this thread, from began to now */
    PORTUS_TRACE_INSTANT = 'i', /* now */
    PORTUS_TRACE_BEGIN = 'b',   /* of something that has an id and overlaps others ... */
    PORTUS_TRACE_END = 'e',     /* ... of the same name, id and process */
};

/* A number for BEGIN and END that no other event of this process has; never 0. */
uint64_t portus_trace_id(void);

struct portus_event {
    enum portus_phase phase;
    const char *category, *name;
    uint64_t id;        /* of BEGIN and END */
    uint64_t began;     /* portus_now(); 0: now */
    const char *path;   /* of a file, or NULL */
    const char *reason; /* a text, or NULL */
    uint64_t ended;     /* of SPAN; 0: now */
};

/* Writes it with the arguments that the format gives as members of a JSON object, or "". */
void portus_trace(const struct portus_event *event, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
