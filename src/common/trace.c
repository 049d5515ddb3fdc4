/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c -- a timeline of what happened, for chrome://tracing and Perfetto
 *
 * A name is written once for each process, by its first event: a forked child is another.
 */
#include "common/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/quote.h"
#include "common/sink.h"

#define LINE 4096
#define PATH_ROOM 3000
#define REASON_ROOM 300

atomic_bool portus_trace_enabled;

static struct portus_sink file = PORTUS_SINK;
static const char *process_name;
static _Atomic int named; /* process id */
static _Atomic uint64_t ids;

static void (*_Atomic writer)(const char *line, size_t length) = portus_trace_write;

void portus_trace_by(void (*by)(const char *line, size_t length))
{
    atomic_store(&writer, by != NULL ? by : portus_trace_write);
}

void portus_trace_write(const char *line, size_t length)
{
    portus_sink_write(&file, line, length);
}

/* By whoever writes them now. */
static void emit(const char *line, size_t length)
{
    void (*by)(const char *, size_t) = atomic_load(&writer);

    by(line, length);
}

void portus_trace_setup(const char *path, const char *process)
{
    int saved = errno;

    file.head = "[\n";
    process_name = process;
    portus_sink_set(&file, path[0] != '\0' ? path : NULL);
    atomic_store(&portus_trace_enabled, portus_sink_named(&file));
    errno = saved;
}

void portus_trace_forget(void)
{
    atomic_store(&file.fd, -1);
}

uint64_t portus_trace_id(void)
{
    return atomic_fetch_add(&ids, 1) + 1;
}

/* The format wants microseconds, and takes fractions. */
static int microseconds(char *out, size_t room, uint64_t ns)
{
    return snprintf(out, room, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static void name_process(int pid)
{
    char line[512], name[REASON_ROOM];
    int length;

    if (atomic_exchange(&named, pid) == pid)
        return;
    portus_quote(name, sizeof(name), process_name != NULL ? process_name : "");
    length = snprintf(line, sizeof(line),
                      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":%d,"
                      "\"args\":{\"name\":%s}},\n",
                      pid, pid, name);
    emit(line, (size_t)length);
}

/* What is left of a path if its beginning goes, so that it fits. */
static const char *tail(const char *path)
{
    size_t length = strlen(path);

    return length > PATH_ROOM / 6 ? path + length - PATH_ROOM / 6 : path;
}

void portus_trace(const struct portus_event *event, const char *format, ...)
{
    char line[LINE], text[PATH_ROOM + 16], time[32];
    uint64_t now = portus_now(), at = event->began != 0 ? event->began : now;
    int pid = (int)syscall(SYS_getpid), saved = errno;
    const char *comma = "";
    size_t used;
    va_list arguments;
    int length;

    name_process(pid);
    microseconds(time, sizeof(time), at);
    used = (size_t)snprintf(line, sizeof(line),
                            "{\"ph\":\"%c\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,"
                            "\"ts\":%s,",
                            event->phase, event->category, event->name, pid,
                            (int)syscall(SYS_gettid), time);
    if (event->phase == PORTUS_TRACE_SPAN) {
        microseconds(time, sizeof(time), (event->ended != 0 ? event->ended : now) - at);
        used += (size_t)snprintf(line + used, sizeof(line) - used, "\"dur\":%s,", time);
    } else if (event->phase == PORTUS_TRACE_INSTANT) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "\"s\":\"t\",");
    } else {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "\"id\":\"%d.%llu\",", pid,
                                 (unsigned long long)event->id);
    }
    used += (size_t)snprintf(line + used, sizeof(line) - used, "\"args\":{");
    if (event->path != NULL) {
        portus_quote(text, sizeof(text), tail(event->path));
        used += (size_t)snprintf(line + used, sizeof(line) - used, "\"file\":%s", text);
        comma = ",";
    }
    if (event->reason != NULL) {
        portus_quote(text, REASON_ROOM, event->reason);
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s\"reason\":%s", comma, text);
        comma = ",";
    }
    va_start(arguments, format);
    length = vsnprintf(text, REASON_ROOM, format, arguments);
    va_end(arguments);
    if (length > 0 && length < REASON_ROOM)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s", comma, text);
    used += (size_t)snprintf(line + used, sizeof(line) - used, "}},\n");
    emit(line, used);
    errno = saved;
}
