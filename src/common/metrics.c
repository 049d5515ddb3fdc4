/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.c -- text that Prometheus reads: families of values with labels
 *
 * Its text exposition format, version 0.0.4.
 */
#include "common/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void put(struct portus_metrics *metrics,
                                                      const char *format, ...)
{
    size_t room = metrics->room - metrics->used;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(metrics->text + metrics->used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room)
        metrics->cut = true;
    else
        metrics->used += (size_t)length;
}

void portus_metrics_family(struct portus_metrics *metrics, const char *name, const char *type,
                           const char *help)
{
    metrics->current = name;
    put(metrics, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void portus_metrics_value(struct portus_metrics *metrics, const char *more, double value)
{
    const char *comma = metrics->labels[0] != '\0' && more[0] != '\0' ? "," : "";

    if (metrics->labels[0] != '\0' || more[0] != '\0')
        put(metrics, "%s{%s%s%s} %.17g\n", metrics->current, metrics->labels, comma, more, value);
    else
        put(metrics, "%s %.17g\n", metrics->current, value);
}

void portus_metrics_one(struct portus_metrics *metrics, const char *name, const char *type,
                        const char *help, double value)
{
    portus_metrics_family(metrics, name, type, help);
    portus_metrics_value(metrics, "", value);
}

void portus_metrics_label(char labels[PORTUS_LABELS], const char *name, const char *value)
{
    size_t used = strlen(labels);

    /* What does not fit is left out: two for each byte, the name, and what is around. */
    if (used + strlen(name) + 2 * strlen(value) + 5 > PORTUS_LABELS)
        return;
    used += (size_t)sprintf(labels + used, "%s%s=\"", used > 0 ? "," : "", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\' || *value == '\n')
            labels[used++] = '\\';
        labels[used++] = *value == '\n' ? 'n' : *value;
    }
    strcpy(labels + used, "\"");
}
