/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept.c -- what a pool holds, found as a fresh opening finds it
 *
 *     kept POOL
 *
 * Prints "free BYTES", then for each version its commit, size, mtime, the CRC-32 of its bytes, all
 * of which are checked, and its path. Exit status 1: something is damaged, or there is no pool.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/copy.h"
#include "common/log.h"
#include "store/pool.h"

static int show(const struct pool_version *version, void *argument)
{
    const struct pool *pool = argument;
    uint64_t size = version->attributes.size;
    char *bytes = malloc(size + 1);
    int error = bytes == NULL ? -1 : pool_verify(pool, version);

    if (error == 0)
        error = pool_read(pool, version, 0, bytes, size);
    if (error == 0)
        printf("%llu %llu %lld %u %s\n", (unsigned long long)version->number,
               (unsigned long long)size, (long long)version->attributes.mtime,
               portus_crc32(0, bytes, size), version->attributes.path);
    free(bytes);
    return error;
}

int main(int argc, char **argv)
{
    struct pool_state state;
    struct pool *pool;
    int error;

    portus_log_setup(PORTUS_LOG_WARN, NULL, "kept: ");
    if (argc != 2 || pool_open(&pool, argv[1], false) != 0)
        return 1;
    pool_look(pool, &state);
    printf("free %llu\n", (unsigned long long)state.free);
    error = pool_each(pool, show, pool);
    pool_close(pool);
    return error != 0 || state.damaged != 0;
}
