// SPDX-License-Identifier: BSD-3-Clause
/*
 * keep.c -- portusctl pin, unpin, rm, gc and verify: what stays in a pool, and how well
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "portus/proto.h"

/* Does op to the versions that the operands mean. */
static int each(int argc, char **argv, unsigned op, unsigned flags, const char *did)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE | OPTION_VERSION);
    char absolute[PATH_MAX], unsettled[PATH_MAX], safe[TEXT_ROOM(PATH_MAX)];
    struct vault_list found;
    struct pool *pool = NULL;
    uint64_t answer;
    int status;

    if (operand < 0)
        return CTL_USAGE;
    if (operand == argc || (op == PORTUS_OP_STORE_REMOVE && options.version == 0)) {
        complain("%s: give %sPATH: see portusctl help %s", argv[0],
                 op == PORTUS_OP_STORE_REMOVE ? "--version N and " : "", argv[0]);
        return CTL_USAGE;
    }
    status = vault_open(&pool, &options, argv[0]);
    for (int i = operand; i < argc && status == 0; i++) {
        size_t count = 0;

        status = vault_find(&found, pool, argv[i], absolute, argv[0]);
        if (status != 0)
            break;
        if (options.version == 0)
            vault_newest(&found, 0, false, unsettled);
        for (size_t j = 0; j < found.count && status == 0; j++) {
            const struct pool_version *version = &found.entry[j].version;
            int error;

            if (options.version != 0 && version->number != options.version)
                continue;
            count++;
            error = vault_change(&options, op, version->number, flags, &answer);
            text_safe(safe, sizeof(safe), found.entry[j].path);
            if (error != 0) {
                complain("%s: %s: commit %llu: %s", argv[0], safe,
                         (unsigned long long)version->number, strerror(-error));
                status = CTL_FAILED;
            } else {
                printf("%s: commit %llu %s\n", safe, (unsigned long long)version->number, did);
            }
        }
        if (count == 0 && status == 0) {
            complain("%s: %s: the pool has no such version", argv[0], argv[i]);
            status = CTL_FAILED;
        }
        vault_free(&found);
    }
    if (pool != NULL)
        pool_close(pool);
    return status;
}

int pin_main(int argc, char **argv)
{
    return each(argc, argv, PORTUS_OP_STORE_PIN, 0, "is pinned");
}

int unpin_main(int argc, char **argv)
{
    return each(argc, argv, PORTUS_OP_STORE_PIN, PORTUS_STORE_UNPIN, "is not pinned");
}

int rm_main(int argc, char **argv)
{
    return each(argc, argv, PORTUS_OP_STORE_REMOVE, 0, "is removed");
}

int gc_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE), error;
    char text[TEXT_BYTES];
    uint64_t bytes, room = 0;

    if (operand < 0)
        return CTL_USAGE;
    if (operand + 1 != argc || text_size(&bytes, argv[operand]) != 0) {
        complain("gc: how much is to be free? give for example 16G");
        return CTL_USAGE;
    }
    if (options.store[0] == '\0') {
        complain("gc: which pool? give --store POOL or set PORTUS_STORE");
        return CTL_USAGE;
    }
    error = vault_change(&options, PORTUS_OP_STORE_ROOM, bytes, 0, &room);
    if (error != 0) {
        complain("gc: %s: %s", options.store, strerror(-error));
        return CTL_FAILED;
    }
    if (room < bytes) {
        complain("gc: %s are free: what is left is pinned or the newest of its file",
                 text_bytes(text, room));
        return CTL_FAILED;
    }
    printf("%s are free\n", text_bytes(text, room));
    return CTL_OK;
}

int verify_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE), status;
    char absolute[PATH_MAX], safe[TEXT_ROOM(PATH_MAX)];
    uint64_t bytes = 0, left, good = 0, bad = 0;
    struct pool_state state;
    struct vault_list found;
    struct pool *pool;
    struct bar bar;

    if (operand < 0)
        return CTL_USAGE;
    status = vault_open(&pool, &options, argv[0]);
    if (status != 0)
        return status;
    bar_start(&bar);
    for (int i = operand; status == 0 && (i == operand || i < argc); i++) {
        status = vault_find(&found, pool, i < argc ? argv[i] : NULL, absolute, argv[0]);
        if (status == 0 && found.count == 0 && i < argc) {
            complain("verify: %s: the pool has no version of it", argv[i]);
            status = CTL_FAILED;
        }
        left = 0;
        for (size_t j = 0; status == 0 && j < found.count; j++)
            left += found.entry[j].version.stored;
        for (size_t j = 0; status == 0 && j < found.count; j++) {
            const struct pool_version *version = &found.entry[j].version;
            int error = pool_verify(pool, version);

            bytes += version->stored;
            left -= version->stored;
            bar_draw(&bar, bytes, left, NULL);
            if (error == -ESTALE)
                continue; /* removed meanwhile */
            good += error == 0;
            bad += error != 0;
            if (error == 0)
                continue;
            bar_clear(&bar);
            complain(
                "verify: %s: commit %llu is damaged (%s): rm removes it, an older or newer one "
                "can be restored",
                text_safe(safe, sizeof(safe), found.entry[j].path),
                (unsigned long long)version->number, strerror(-error));
        }
        if (status == 0)
            vault_free(&found);
    }
    bar_clear(&bar);
    pool_look(pool, &state);
    if (operand >= argc)
        bad += state.damaged; /* left out when it was opened */
    pool_close(pool);
    if (status != 0)
        return status;
    printf("%llu versions are good, %llu damaged\n", (unsigned long long)good,
           (unsigned long long)bad);
    return bad > 0 ? CTL_FAILED : CTL_OK;
}
