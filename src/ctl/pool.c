// SPDX-License-Identifier: BSD-3-Clause
/*
 * pool.c -- portusctl pool: makes a pool, looks at one, reads all of it, enlarges it
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/text.h"
#include "ctl/vault.h"

static int create(const struct options *options, int argc, char **argv)
{
    uint64_t size = 0;

    if (argc < 1 || argc > 2 || (argc == 2 && vault_size(&size, argv[1]) != 0)) {
        complain("pool create: give POOL and SIZE, for example /mnt/pmem0/portus.pool 64G");
        return CTL_USAGE;
    }
    if (pool_create(argv[0], size, options->objects, options->force) != 0)
        return CTL_FAILED;
    printf("%s: PORTUS_STORE=%s makes a training job use it\n", argv[0], argv[0]);
    return CTL_OK;
}

static int info(const struct options *options, const char *path)
{
    char size[TEXT_BYTES], room[TEXT_BYTES], name[TEXT_ROOM(PATH_MAX)];
    struct pool_state state;
    struct pool *pool;

    (void)options;
    if (pool_open(&pool, path, false) != 0)
        return CTL_FAILED;
    pool_look(pool, &state);
    printf("%s: %s, %s\n", text_safe(name, sizeof(name), path), state.kind,
           state.durable ? "persistent memory" : "as durable as the page cache");
    printf("  %s, %s free\n", text_bytes(size, state.size), text_bytes(room, state.free));
    printf("  %llu versions, room for %llu more; newest commit %llu\n",
           (unsigned long long)(state.slots - state.slots_free),
           (unsigned long long)state.slots_free, (unsigned long long)state.newest);
    if (state.damaged > 0)
        printf("  %llu versions are damaged and left out\n", (unsigned long long)state.damaged);
    pool_close(pool);
    return state.damaged > 0 ? CTL_FAILED : CTL_OK;
}

static int grow(const char *path, const char *text)
{
    struct pool *pool;
    uint64_t size;
    int error;

    if (vault_size(&size, text) != 0) {
        complain("pool grow: %.64s is no size: give for example 128G", text);
        return CTL_USAGE;
    }
    if (pool_open(&pool, path, true) != 0)
        return CTL_FAILED;
    error = pool_set_size(pool, size);
    pool_close(pool);
    return error == 0 ? CTL_OK : CTL_FAILED;
}

int pool_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_FORCE | OPTION_OBJECTS), rest;

    if (operand < 0)
        return CTL_USAGE;
    argv += operand;
    rest = argc - operand - 1;
    if (rest >= 1 && strcmp(argv[0], "create") == 0)
        return create(&options, rest, argv + 1);
    if (rest == 1 && strcmp(argv[0], "info") == 0)
        return info(&options, argv[1]);
    if (rest == 1 && strcmp(argv[0], "check") == 0) {
        int status = info(&options, argv[1]);
        int verified = verify_main(3, (char *[]){"verify", "--store", argv[1], NULL});
        return status != CTL_OK ? status : verified;
    }
    if (rest == 2 && strcmp(argv[0], "grow") == 0)
        return grow(argv[1], argv[2]);
    complain("pool: give create, info, check or grow, and a pool: see portusctl help pool");
    return CTL_USAGE;
}
