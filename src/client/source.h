/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.h -- whether the memory that a program writes from can be read
 */
#ifndef PORTUS_SOURCE_H
#define PORTUS_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* What this process's memory is asked by; -1 where it cannot be. */
struct portus_source {
    int maps;  /* /proc/self/maps */
    int pages; /* /proc/self/pagemap */
};

/* Memory of this process has a protection key: what may be read then is not told by its mapping. */
extern _Atomic bool portus_source_keyed;

/* Descriptors of this very process: a forked child must close them and open its own. */
void portus_source_open(struct portus_source *source);
void portus_source_close(struct portus_source *source);

/* Whether length bytes at data are anonymous memory that is present and may be read. */
bool portus_source_present(const struct portus_source *source, const void *data, size_t length);

/*
 * Whether length bytes at data can be read, whatever they are; false: at least one of
 * them cannot. So memory that is not there becomes the kernel's EFAULT and not a SIGSEGV
 * or SIGBUS in a copy.
 * source: NULL where none is open.
 */
bool portus_source_readable(const struct portus_source *source, const void *data, size_t length);

#endif
