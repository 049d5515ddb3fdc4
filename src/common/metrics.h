/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.h -- text that Prometheus reads: families of values with labels
 */
#ifndef PORTUS_METRICS_H
#define PORTUS_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#define PORTUS_LABELS 1024

struct portus_metrics {
    char *text; /* ended by a NUL */
    size_t room, used;
    bool cut;            /* it did not fit: of no use */
    const char *labels;  /* of each value, or "" */
    const char *current; /* the family's name */
};

/* type: "gauge" or "counter". Values of it follow. */
void portus_metrics_family(struct portus_metrics *metrics, const char *name, const char *type,
                           const char *help);

/* more: labels in addition, as portus_metrics_label() makes them, or "". */
void portus_metrics_value(struct portus_metrics *metrics, const char *more, double value);

/* A family of one value. */
void portus_metrics_one(struct portus_metrics *metrics, const char *name, const char *type,
                        const char *help, double value);

/* Appends name="value" to labels, with a comma where there is one already. */
void portus_metrics_label(char labels[PORTUS_LABELS], const char *name, const char *value);

#endif
