/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h -- one line on standard error, or into a file, for a person
 *
 * Lines read `portus: what happened: what happens now`. A line is written with
 * one write(2) from a buffer on the stack: safe in a hook, in a forked child and
 * between threads. errno is preserved.
 */
#ifndef PORTUS_LOG_H
#define PORTUS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum portus_level {
    PORTUS_LOG_ERROR = 0,
    PORTUS_LOG_WARN = 1,
    PORTUS_LOG_INFO = 2,
    PORTUS_LOG_DEBUG = 3,
};

/*
 * Sets what is written and where to. path NULL: standard error; otherwise the
 * file is opened for appending at the first line, and standard error takes its
 * place if that fails. The string is copied. prefix ("portus: ") must outlive
 * the process.
 */
void portus_log_setup(enum portus_level level, const char *path, const char *prefix);

/* Lines are JSON objects: time (s since 1970), level, program, pid, message. */
void portus_log_json(bool json);

/* Standard error goes to the journal: lines there begin with their priority, as <4>. */
void portus_log_journal(void);

/*
 * Has somebody else write the lines, by portus_log_write, than the thread that says them (see
 * scribe.h); NULL: that thread.
 */
void portus_log_by(void (*by)(const char *line, size_t length));
void portus_log_write(const char *line, size_t length);

/* Of a file whose descriptor somebody else closes, in a child that shares them: opens it anew. */
void portus_log_forget(void);

/* Whether a line of that level would be written. */
bool portus_log_enabled(enum portus_level level);

/* printf-like; one line, without the newline, cut at 1000 bytes. */
void portus_log(enum portus_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * For lines that others can bring about, as often as they like: whether one more may be written.
 * So many a minute; how many were left out is said before the next one. Not for several
 * threads at once.
 */
struct portus_log_some {
    unsigned most; /* a minute; 0: 10 */
    unsigned said, left_out;
    uint64_t since; /* ns */
};

bool portus_log_some(struct portus_log_some *some);

#define log_error(...) portus_log(PORTUS_LOG_ERROR, __VA_ARGS__)
#define log_warn(...) portus_log(PORTUS_LOG_WARN, __VA_ARGS__)
#define log_info(...) portus_log(PORTUS_LOG_INFO, __VA_ARGS__)
#define log_debug(...) portus_log(PORTUS_LOG_DEBUG, __VA_ARGS__)

#endif
