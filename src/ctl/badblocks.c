/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * badblocks.c -- portusctl pool badblocks: what a pool's device cannot read any more
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "store/badblocks.h"

static void show(const char *what, uint64_t number, const char *path, void *argument)
{
    bool *some = argument;
    char safe[TEXT_ROOM(PATH_MAX)];

    *some = true;
    if (number == 0)
        printf("    %s\n", what);
    else if (path == NULL)
        printf("    commit %llu: %s\n", (unsigned long long)number, what);
    else
        printf("    %s: commit %llu: %s\n", text_safe(safe, sizeof(safe), path),
               (unsigned long long)number, what);
}

static int list(const char *path)
{
    struct bad_block *blocks;
    struct pool *pool = NULL;
    size_t count;

    if (bad_blocks_list(path, &blocks, &count) != 0)
        return CTL_FAILED;
    if (count == 0) {
        puts("no bad blocks are known");
        return CTL_OK;
    }
    if (pool_open(&pool, path, false) != 0)
        complain("pool badblocks: what they hit cannot be told: the pool cannot be opened");
    for (size_t i = 0; i < count; i++) {
        bool some = false;

        printf("%llu bytes at %llu\n", (unsigned long long)blocks[i].length,
               (unsigned long long)blocks[i].offset);
        if (pool != NULL && pool_at(pool, &blocks[i], show, &some) == 0 && !some)
            puts("    nothing is there");
    }
    pool_close(pool);
    free(blocks);
    return CTL_FAILED;
}

int badblocks(const struct options *options, const char *path)
{
    size_t cleared = 0;
    int error, status = list(path);

    if (!options->clear || status == CTL_OK)
        return status;
    error = bad_blocks_clear(path, &cleared);
    printf("%zu bad blocks are cleared: portusctl scrub --store POOL repairs what can be\n",
           cleared);
    if (error == -EBUSY)
        complain("pool badblocks: end its portusd before (SIGTERM)");
    if (error == -EPERM || error == -EACCES)
        complain("pool badblocks: only root may clear bad blocks");
    return error == 0 ? CTL_OK : CTL_FAILED;
}
