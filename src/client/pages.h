/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages.h -- what lies where in this process's memory, as the kernel says
 */
#ifndef PORTUS_PAGES_H
#define PORTUS_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/source.h"

#define PORTUS_MAPPING_READ 1u
#define PORTUS_MAPPING_WRITE 2u
#define PORTUS_MAPPING_EXECUTE 4u
#define PORTUS_MAPPING_SHARED 8u

struct portus_mapping {
    uintptr_t start, end;
    uint32_t flags;
    uint64_t offset, device, inode; /* of a file; inode 0: it is none */
    char name[32];                  /* or the beginning of it */
};

/* The mapping that `at` lies in, or the next one above it. False: none, or it cannot be seen. */
bool portus_mapping_at(const struct portus_source *source, uintptr_t at,
                       struct portus_mapping *mapping);

/* All mappings of files from an address on, in their order; others may be among them. */
struct portus_walk {
    const struct portus_source *source;
    uintptr_t at;
    /* Where there is no better way: the text, read by a descriptor of its own if there is one. */
    int file;
    bool cut; /* `line` is the rest of a long one */
    int64_t offset;
    char *line, text[1024 + 1];
};
void portus_walk_begin(struct portus_walk *walk, const struct portus_source *source, uintptr_t at);
bool portus_walk_next(struct portus_walk *walk, struct portus_mapping *mapping);
void portus_walk_end(struct portus_walk *walk);

/*
 * Whether all between start and end, both on pages, is memory of no file that may be read, and
 * present. False also where only text and table would tell it, which takes too long.
 */
bool portus_pages_present(const struct portus_source *source, uintptr_t start, uintptr_t end);

/*
 * The first pages between start and end, both on pages, in a private mapping of a file, that
 * are the process's own copies, as it has written to them. 1: [*from, *to); 0: there are none;
 * a negative errno: it cannot be seen.
 */
int portus_pages_own(const struct portus_source *source, uintptr_t start, uintptr_t end,
                     uintptr_t *from, uintptr_t *to);

#endif
