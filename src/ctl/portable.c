/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * portable.c -- what a version is beside its bytes, as a text
 */
#include "ctl/portable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t portable_write(char text[PORTABLE_BYTES], const struct pool_version *version)
{
    return (size_t)snprintf(text, PORTABLE_BYTES, "settled=%d pinned=%d owner=%u job=%s",
                            version->attributes.settled, version->pinned, version->key.owner,
                            version->attributes.job);
}

void portable_read(struct portable *portable, const char *text, size_t length)
{
    char copy[PORTABLE_BYTES];
    int settled, pinned, end = 0;
    unsigned owner;

    if (length >= sizeof(copy) || memchr(text, 0, length) != NULL)
        return;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (sscanf(copy, "settled=%1d pinned=%1d owner=%10u job=%n", &settled, &pinned, &owner, &end) !=
            3 ||
        end == 0 || strlen(copy + end) >= sizeof(portable->job))
        return;
    portable->known = true;
    portable->settled = settled != 0;
    portable->pinned = pinned != 0;
    portable->owner = owner;
    strcpy(portable->job, copy + end);
}

bool portable_cut(struct portable *portable, char *path)
{
    char *at = strrchr(path, '@'), *end;

    if (at == NULL || at == path || at[-1] == '/' || at[1] < '1' || at[1] > '9')
        return false;
    errno = 0;
    portable->commit = strtoull(at + 1, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *at = '\0';
    return true;
}
