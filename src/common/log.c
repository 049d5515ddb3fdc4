/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.c -- writes the lines of log.h
 *
 * Not here: rotation, syslog; time stamps only for programs that read it (JSON).
 *
 * This runs inside programs that know nothing of it, within hooks of the very
 * calls that it would use: see sink.c. Nothing is locked and nothing is allocated.
 */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/quote.h"
#include "common/sink.h"

#define LINE_MAX_BYTES 1000
#define SOME_NS 60000000000ull
#define SOME 10

static atomic_int threshold = PORTUS_LOG_WARN;
static const char *_Atomic prefix_text = "portus: ";
static atomic_bool stderr_absent, stderr_journal, as_json;

static struct portus_sink file = PORTUS_SINK;

static void (*_Atomic writer)(const char *line, size_t length) = portus_log_write;

void portus_log_by(void (*by)(const char *line, size_t length))
{
    atomic_store(&writer, by != NULL ? by : portus_log_write);
}

void portus_log_write(const char *line, size_t length)
{
    if (portus_sink_write(&file, line, length))
        return;
    if (!atomic_load(&stderr_absent))
        portus_write_quietly(STDERR_FILENO, line, length);
}

/* By whoever writes them now. */
static void emit(const char *line, size_t length)
{
    void (*by)(const char *, size_t) = atomic_load(&writer);

    by(line, length);
}

void portus_log_setup(enum portus_level level, const char *path, const char *prefix)
{
    int saved = errno;

    portus_sink_set(&file, path);
    /* A number that is free now may become anything, a checkpoint for one. */
    atomic_store(&stderr_absent, syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) < 0);
    atomic_store(&prefix_text, prefix);
    atomic_store(&threshold, level);
    errno = saved;
}

void portus_log_forget(void)
{
    atomic_store(&file.fd, -1);
}

void portus_log_json(bool json)
{
    atomic_store(&as_json, json);
}

void portus_log_journal(void)
{
    atomic_store(&stderr_journal, true);
}

bool portus_log_enabled(enum portus_level level)
{
    return (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

bool portus_log_some(struct portus_log_some *some)
{
    uint64_t now = portus_now();

    if (some->since == 0 || now - some->since >= SOME_NS) {
        if (some->left_out > 0)
            log_warn("%u lines like the next one were left out", some->left_out);
        some->since = now;
        some->said = some->left_out = 0;
    }
    if (some->said == (some->most != 0 ? some->most : SOME)) {
        some->left_out++;
        return false;
    }
    some->said++;
    return true;
}

/* The program's name: the prefix up to its colon. */
static void emit_json(enum portus_level level, const char *prefix, const char *text)
{
    static const char levels[][6] = {"error", "warn", "info", "debug"};
    char line[PORTUS_QUOTE_ROOM(LINE_MAX_BYTES) + 300], name[64], quoted[100];
    struct timespec now;
    int length;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(prefix, ":"), prefix);
    portus_quote(quoted, sizeof(quoted), name);
    clock_gettime(CLOCK_REALTIME, &now);
    length = snprintf(line, sizeof(line),
                      "{\"time\":%lld.%06ld,\"level\":\"%s\",\"program\":%s,\"pid\":%d,"
                      "\"message\":",
                      (long long)now.tv_sec, now.tv_nsec / 1000, levels[level], quoted,
                      (int)syscall(SYS_getpid));
    length += (int)portus_quote(line + length, sizeof(line) - (size_t)length - 2, text);
    line[length++] = '}';
    line[length++] = '\n';
    emit(line, (size_t)length);
}

void portus_log(enum portus_level level, const char *format, ...)
{
    static const char cut[] = "...";
    static const char priorities[][4] = {"<3>", "<4>", "<6>", "<7>"}; /* of syslog(3) */
    char line[LINE_MAX_BYTES + 1]; /* the newline takes the place of the NUL */
    bool json = atomic_load(&as_json);
    const char *prefix;
    size_t length = 0, room;
    va_list arguments;
    int saved = errno, wanted;

    if (!portus_log_enabled(level))
        return;
    prefix = atomic_load(&prefix_text);
    if (!json && atomic_load(&stderr_journal) && !portus_sink_named(&file)) {
        memcpy(line, priorities[level], 3);
        length = 3;
    }
    if (!json) {
        memcpy(line + length, prefix, strnlen(prefix, LINE_MAX_BYTES / 2));
        length += strnlen(prefix, LINE_MAX_BYTES / 2);
    }
    room = LINE_MAX_BYTES - length;

    va_start(arguments, format);
    wanted = vsnprintf(line + length, room + 1, format, arguments);
    va_end(arguments);
    if (wanted > 0 && (size_t)wanted > room) {
        memcpy(line + LINE_MAX_BYTES - strlen(cut), cut, strlen(cut));
        length = LINE_MAX_BYTES;
    } else if (wanted > 0) {
        length += wanted;
    }
    if (json) {
        line[length] = '\0';
        emit_json(level, prefix, line);
        errno = saved;
        return;
    }
    /* Names of files are anyone's: no second line, no escape sequences. */
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    emit(line, length);
    errno = saved;
}
