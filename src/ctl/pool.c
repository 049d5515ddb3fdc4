// SPDX-License-Identifier: BSD-3-Clause
/*
 * pool.c -- portusctl pool: makes a pool, looks at one, reads all of it, makes it larger or smaller
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "portus/proto.h"
#include "store/remote.h"

static int create(const struct options *options, int argc, char **argv)
{
    uint64_t size = 0;

    if (argc < 1 || argc > 2 || (argc == 2 && text_size(&size, argv[1]) != 0)) {
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
    if ((remote_is(path) ? remote_open(&pool, path) : pool_open(&pool, path, false)) != 0)
        return CTL_FAILED;
    pool_look(pool, &state);
    if (remote_is(path)) {
        printf("%s: what there is for this user\n  %s may be taken, %s free\n  %llu versions\n",
               text_safe(name, sizeof(name), path), text_bytes(size, state.size),
               text_bytes(room, state.free), (unsigned long long)(state.slots - state.slots_free));
        pool_close(pool);
        return CTL_OK;
    }
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

/* By the portusd that has it, or here. */
static int resize(struct options *options, const char *path, const char *text)
{
    char size[TEXT_BYTES], name[TEXT_ROOM(PATH_MAX)];
    uint64_t bytes, answer = 0;
    int error;

    if (text_size(&bytes, text) != 0) {
        complain("pool resize: %.64s is no size: give for example 128G", text);
        return CTL_USAGE;
    }
    options->store = path;
    error = vault_change(options, PORTUS_OP_STORE_SIZE, bytes, 0, &answer);
    if (error != 0) {
        complain("pool resize: %s: %s", path,
                 error == -EBUSY   ? "versions lie beyond that, or another process has the pool: "
                                     "portusctl gc and rm make room"
                 : error == -EFBIG ? "there is not so much of it"
                                   : strerror(-error));
        return CTL_FAILED;
    }
    printf("%s: %s\n", text_safe(name, sizeof(name), path), text_bytes(size, bytes));
    return CTL_OK;
}

static int check(struct options *options, char *path)
{
    uint64_t count = 0;
    int status, verified, error = 0;

    options->store = path;
    if (options->remove_damaged)
        error = vault_change(options, PORTUS_OP_STORE_CLEAN, 0, 0, &count);
    if (error != 0) {
        complain("pool check: %s: nothing is removed: %s", path, strerror(-error));
        return CTL_FAILED;
    }
    if (options->remove_damaged)
        printf("%llu versions that were left out are removed\n", (unsigned long long)count);
    status = info(options, path);
    verified = verify_main(3, (char *[]){"verify", "--store", path, NULL});
    return status != CTL_OK ? status : verified;
}

int pool_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(
        &options, argc, argv, OPTION_FORCE | OPTION_OBJECTS | OPTION_CLEAR | OPTION_REMOVE_DAMAGED);
    int rest;

    if (operand < 0)
        return CTL_USAGE;
    argv += operand;
    rest = argc - operand - 1;
    if (rest >= 1 && remote_is(argv[1]) && strcmp(argv[0], "info") != 0 &&
        strcmp(argv[0], "check") != 0) {
        complain("pool %s: %s: that is for who runs its portusd, by the pool's path", argv[0],
                 argv[1]);
        return CTL_USAGE;
    }
    if (rest >= 1 && strcmp(argv[0], "create") == 0)
        return create(&options, rest, argv + 1);
    if (rest == 1 && strcmp(argv[0], "info") == 0)
        return info(&options, argv[1]);
    if (rest == 1 && strcmp(argv[0], "check") == 0)
        return check(&options, argv[1]);
    if (rest == 1 && strcmp(argv[0], "badblocks") == 0)
        return badblocks(&options, argv[1]);
    if (rest == 2 && (strcmp(argv[0], "resize") == 0 || strcmp(argv[0], "grow") == 0))
        return resize(&options, argv[1], argv[2]);
    complain(
        "pool: give create, info, check, resize or badblocks, and a pool: see portusctl help pool");
    return CTL_USAGE;
}
