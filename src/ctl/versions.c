// SPDX-License-Identifier: BSD-3-Clause
/*
 * versions.c -- portusctl ls and versions: what a pool holds
 */
#include <stdio.h>
#include <time.h>

#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/text.h"
#include "ctl/vault.h"

static uint64_t age(int64_t mtime)
{
    struct timespec now;
    int64_t nanoseconds;

    clock_gettime(CLOCK_REALTIME, &now);
    nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - mtime;
    return nanoseconds > 0 ? (uint64_t)nanoseconds : 0;
}

static void show(const struct vault_version *entry)
{
    const struct pool_version *version = &entry->version;
    char size[TEXT_BYTES], span[TEXT_SPAN], path[TEXT_ROOM(PATH_MAX)];

    printf("%10llu %c%c %10s %14s  %s\n", (unsigned long long)version->number,
           version->attributes.settled ? 's' : '-', version->pinned ? 'p' : '-',
           text_bytes(size, version->attributes.size),
           text_span(span, age(version->attributes.mtime)),
           text_safe(path, sizeof(path), entry->path));
}

static void show_json(struct json *json, const struct vault_version *entry)
{
    const struct pool_version *version = &entry->version;

    json_open_object(json, NULL);
    json_text(json, "path", entry->path);
    json_number(json, "commit", version->number);
    json_number(json, "size", version->attributes.size);
    json_number(json, "stored", version->stored);
    json_number(json, "mtime_ns", (uint64_t)version->attributes.mtime);
    json_text(json, "job", entry->job);
    json_bool(json, "settled", version->attributes.settled);
    json_bool(json, "pinned", version->pinned);
    json_close(json);
}

static int list(int argc, char **argv, bool all)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE | OPTION_JSON), status;
    char absolute[PATH_MAX], unsettled[PATH_MAX];
    struct vault_list found;
    struct json json;
    struct pool *pool;
    size_t shown = 0;

    if (operand < 0)
        return CTL_USAGE;
    status = vault_open(&pool, &options, argv[0]);
    if (status != 0)
        return status;
    if (options.json) {
        json_begin(&json, stdout);
        json_open_array(&json, "versions");
    }
    for (int i = operand; i == operand || i < argc; i++) {
        status = vault_find(&found, pool, i < argc ? argv[i] : NULL, absolute, argv[0]);
        if (status != 0)
            break;
        if (!all)
            vault_newest(&found, 0, false, unsettled);
        if (found.count == 0 && i < argc) {
            complain("%s: %s: the pool has no version of it", argv[0], argv[i]);
            status = CTL_FAILED;
        }
        for (size_t j = 0; j < found.count; j++, shown++) {
            if (options.json) {
                show_json(&json, &found.entry[j]);
                continue;
            }
            if (shown == 0)
                printf("%10s %s %10s %14s  %s\n", "commit", "  ", "size", "age", "path");
            show(&found.entry[j]);
        }
        vault_free(&found);
        if (status != 0)
            break;
    }
    if (options.json) {
        json_close(&json);
        json_end(&json);
    }
    pool_close(pool);
    return status;
}

int ls_main(int argc, char **argv)
{
    return list(argc, argv, false);
}

int versions_main(int argc, char **argv)
{
    if (argc < 2) {
        complain("versions: of which file? see portusctl help versions");
        return CTL_USAGE;
    }
    return list(argc, argv, true);
}
