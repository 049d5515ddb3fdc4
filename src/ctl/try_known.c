/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * try_known.c -- contents that plain runs gave to files, and what is made of them
 *
 * A file that a killed run leaves is looked up by its bytes, not by its name: it may not
 * have been renamed yet. Without tracing only contents are known that a file had when it
 * was closed; those of a moment before are beginnings of them, or lack a patch.
 */
#include <stdlib.h>
#include <string.h>

#include "ctl/try.h"

#define PATCHES 4 /* blocks: of a header, a directory at the end */

void known_add(struct known *known, const char *path, const char *name)
{
    struct tree_entry entry = {.path = strdup(name)}, *list = known->entry;

    if (entry.path == NULL || tree_read_file(&entry, path) != 0) {
        free(entry.path);
        return; /* it is gone again, which is no content */
    }
    if (known->count == known->room) {
        known->room = known->room != 0 ? 2 * known->room : 64;
        list = realloc(known->entry, known->room * sizeof(*list));
        if (list == NULL)
            abort();
        known->entry = list;
    }
    known->entry[known->count++] = entry;
}

void known_free(struct known *known)
{
    for (size_t i = 0; i < known->count; i++) {
        free(known->entry[i].path);
        free(known->entry[i].block);
    }
    free(known->entry);
    *known = (struct known){0};
}

/* How an entry compares with one content. */
static enum known_as compare(const struct tree_entry *content, const struct tree_entry *entry)
{
    uint64_t size = (uint64_t)entry->status.st_size, all = (uint64_t)content->status.st_size;
    /* Of the last block only a part may be there: that is known of whole files only. */
    size_t blocks = size == all ? entry->blocks : size / TREE_BLOCK, differ = 0;

    if (size > all)
        return KNOWN_NOT;
    for (size_t i = 0; i < blocks && differ <= PATCHES; i++)
        differ += content->block[i] != entry->block[i];
    if (differ > PATCHES || 2 * differ > blocks)
        return KNOWN_NOT;
    /* What is missing is no patch. */
    if (differ > 0)
        return entry->zeros > content->zeros ? KNOWN_NOT : KNOWN_PATCHED;
    return size == all ? KNOWN_WHOLE : KNOWN_SHORT;
}

enum known_as known_judge(const struct known *known, const struct tree_entry *entry)
{
    enum known_as best = entry->status.st_size == 0 ? KNOWN_SHORT : KNOWN_NOT;

    for (size_t i = 0; i < known->count && best != KNOWN_WHOLE; i++) {
        enum known_as as = compare(&known->entry[i], entry);

        if (as < best)
            best = as;
    }
    return best;
}
