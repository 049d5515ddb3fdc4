// SPDX-License-Identifier: BSD-3-Clause
/*
 * versions.c -- portusctl ls and versions: what a pool holds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* All versions of a path, together. */
struct sum {
    uint64_t versions, stored;
};

static void head(bool long_list)
{
    if (long_list)
        printf("%10s %s %6s %5s %5s %8s %10s %10s %14s  %s\n", "commit", "   ", "mode", "uid",
               "gid", "versions", "size", "stored", "age", "path");
    else
        printf("%10s %s %10s %14s  %s\n", "commit", "   ", "size", "age", "path");
}

static void show(const struct vault_version *entry, const struct sum *sum, bool long_list)
{
    const struct pool_version *version = &entry->version;
    const struct pool_attributes *attributes = &version->attributes;
    char size[TEXT_BYTES], stored[TEXT_BYTES], span[TEXT_SPAN], path[TEXT_ROOM(PATH_MAX)];

    printf("%10llu %c%c%c", (unsigned long long)version->number, attributes->settled ? 's' : '-',
           version->pinned ? 'p' : '-', version->damaged ? 'd' : '-');
    if (long_list)
        printf(" %6o %5u %5u %8llu", attributes->mode & 07777, attributes->uid, attributes->gid,
               (unsigned long long)sum->versions);
    printf(" %10s", text_bytes(size, attributes->size));
    if (long_list)
        printf(" %10s", text_bytes(stored, sum->stored));
    printf(" %14s  %s\n", text_span(span, age(attributes->mtime)),
           text_safe(path, sizeof(path), entry->path));
}

static void show_json(struct json *json, const struct vault_version *entry, const struct sum *sum)
{
    const struct pool_version *version = &entry->version;

    json_open_object(json, NULL);
    json_number(json, "versions", sum->versions);
    json_number(json, "stored_all", sum->stored);
    json_number(json, "mode", version->attributes.mode & 07777);
    json_number(json, "uid", version->attributes.uid);
    json_number(json, "gid", version->attributes.gid);
    json_bool(json, "damaged", version->damaged);
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

static int by_path(const void *one, const void *other)
{
    const struct vault_version *a = one, *b = other;

    return strcmp(a->path, b->path);
}

/* Of the versions of one path; they stand together. */
static struct sum sum_of(const struct vault_list *sorted, const char *path)
{
    const struct vault_version wanted = {.path = (char *)path}, *at;
    struct sum sum = {0};

    at = bsearch(&wanted, sorted->entry, sorted->count, sizeof(*at), by_path);
    if (at == NULL) /* it is new since */
        return sum;
    while (at > sorted->entry && strcmp(at[-1].path, path) == 0)
        at--;
    for (; at < sorted->entry + sorted->count && strcmp(at->path, path) == 0; at++) {
        sum.versions++;
        sum.stored += at->version.stored;
    }
    return sum;
}

static int list(int argc, char **argv, bool all)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE | OPTION_JSON | OPTION_LONG);
    int status;
    char absolute[PATH_MAX], unsettled[PATH_MAX];
    struct vault_list found, sorted;
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
        status = vault_find(&sorted, pool, i < argc ? argv[i] : NULL, absolute, argv[0]);
        if (status == 0 && !all && vault_newest(&found, 0, false, unsettled) != 0)
            status = CTL_FAILED;
        if (status != 0) {
            vault_free(&found);
            break;
        }
        if (sorted.count > 0)
            qsort(sorted.entry, sorted.count, sizeof(*sorted.entry), by_path);
        if (found.count == 0 && i < argc) {
            complain("%s: %s: the pool has no version of it", argv[0], argv[i]);
            status = CTL_FAILED;
        }
        for (size_t j = 0; j < found.count; j++, shown++) {
            struct sum sum = sum_of(&sorted, found.entry[j].path);

            if (options.json) {
                show_json(&json, &found.entry[j], &sum);
                continue;
            }
            if (shown == 0)
                head(options.long_list);
            show(&found.entry[j], &sum, options.long_list);
        }
        vault_free(&found);
        vault_free(&sorted);
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
