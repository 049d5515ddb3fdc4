/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diff.c -- portusctl diff: which bytes of a file differ between two of its versions
 *
 * Where two tensors differ some of their bytes are equal by chance, so ranges with only a
 * few equal bytes between them are told as one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/text.h"
#include "ctl/vault.h"

#define PIECE (1u << 20)
#define GAP 16 /* so many equal bytes part two ranges */

/* As diff(1): other statuses than elsewhere. */
enum { DIFF_SAME = 0, DIFF_DIFFERS = 1, DIFF_TROUBLE = 2 };

struct ranges {
    bool json_wanted, open;
    struct json json;
    uint64_t begin, end; /* of the one that is open */
    uint64_t count, bytes;
};

static void close_range(struct ranges *ranges)
{
    if (!ranges->open)
        return;
    ranges->open = false;
    ranges->count++;
    ranges->bytes += ranges->end - ranges->begin;
    if (ranges->json_wanted) {
        json_open_object(&ranges->json, NULL);
        json_number(&ranges->json, "begin", ranges->begin);
        json_number(&ranges->json, "end", ranges->end);
        json_close(&ranges->json);
    } else {
        printf("%llu-%llu\n", (unsigned long long)ranges->begin, (unsigned long long)ranges->end);
    }
}

static void differs(struct ranges *ranges, uint64_t begin, uint64_t end)
{
    if (ranges->open && begin - ranges->end < GAP) {
        ranges->end = end;
        return;
    }
    close_range(ranges);
    ranges->open = true;
    ranges->begin = begin;
    ranges->end = end;
}

static void compare(struct ranges *ranges, uint64_t offset, const char *one, const char *other,
                    size_t length)
{
    size_t i = 0;

    while (i < length) {
        size_t begin;

        for (; i + 64 <= length && memcmp(one + i, other + i, 64) == 0; i += 64)
            ;
        while (i < length && one[i] == other[i])
            i++;
        begin = i;
        while (i < length && one[i] != other[i])
            i++;
        if (i > begin)
            differs(ranges, offset + begin, offset + i);
    }
}

/* What both have, then the rest of the longer one. 0 or an exit status after a message. */
static int compare_all(struct pool *pool, const struct pool_version *versions[2],
                       struct ranges *ranges)
{
    static char pieces[2][PIECE];
    uint64_t sizes[2] = {versions[0]->attributes.size, versions[1]->attributes.size}, offset = 0;
    uint64_t both = sizes[0] < sizes[1] ? sizes[0] : sizes[1];
    struct bar bar;
    int error = 0, which = 0;

    bar_start(&bar);
    while (offset < both && error == 0) {
        size_t length = both - offset < PIECE ? (size_t)(both - offset) : PIECE;

        for (which = 0; which < 2 && error == 0; which++)
            error = pool_read(pool, versions[which], offset, pieces[which], length);
        if (error != 0)
            break;
        compare(ranges, offset, pieces[0], pieces[1], length);
        offset += length;
        bar_draw(&bar, offset, both - offset, NULL);
    }
    bar_clear(&bar);
    if (error != 0) {
        complain("diff: commit %llu: %s", (unsigned long long)versions[which - 1]->number,
                 error == -EUCLEAN  ? "its bytes in the pool are damaged: no comparison"
                 : error == -ESTALE ? "it has been removed meanwhile"
                                    : strerror(-error));
        return DIFF_TROUBLE;
    }
    if (sizes[0] != sizes[1])
        differs(ranges, both, sizes[0] > both ? sizes[0] : sizes[1]);
    close_range(ranges);
    return 0;
}

static const struct pool_version *pick(const struct vault_list *found, const char *path,
                                       const char *text)
{
    char *end, safe[TEXT_ROOM(PATH_MAX)];
    uint64_t number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-') {
        complain("diff: %.64s is no commit's number: see portusctl versions", text);
        return NULL;
    }
    for (size_t i = 0; i < found->count; i++)
        if (found->entry[i].version.number == number && strcmp(found->entry[i].path, path) == 0)
            return &found->entry[i].version;
    complain("diff: %s: the pool has no version %.64s of it: see portusctl versions",
             text_safe(safe, sizeof(safe), path), text);
    return NULL;
}

int diff_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_STORE | OPTION_JSON), status;
    const struct pool_version *versions[2];
    char absolute[PATH_MAX], bytes[TEXT_BYTES];
    struct ranges ranges = {0};
    struct vault_list found;
    struct pool *pool;

    if (operand < 0)
        return DIFF_TROUBLE;
    if (argc - operand != 3) {
        complain("diff: give PATH and two commits: see portusctl help diff");
        return DIFF_TROUBLE;
    }
    if (vault_open(&pool, &options, argv[0]) != 0)
        return DIFF_TROUBLE;
    if (vault_find(&found, pool, argv[operand], absolute, argv[0]) != 0) {
        pool_close(pool);
        return DIFF_TROUBLE;
    }
    versions[0] = pick(&found, absolute, argv[operand + 1]);
    versions[1] = versions[0] != NULL ? pick(&found, absolute, argv[operand + 2]) : NULL;
    status = versions[1] == NULL ? DIFF_TROUBLE : 0;
    if (status == 0) {
        ranges.json_wanted = options.json;
        if (options.json) {
            json_begin(&ranges.json, stdout);
            json_open_array(&ranges.json, "differ");
        }
        status = compare_all(pool, versions, &ranges);
        if (options.json) {
            json_close(&ranges.json);
            json_end(&ranges.json);
        } else if (status == 0 && ranges.count > 0) {
            printf("%llu ranges differ, %s\n", (unsigned long long)ranges.count,
                   text_bytes(bytes, ranges.bytes));
        }
    }
    vault_free(&found);
    pool_close(pool);
    return status != 0 ? status : ranges.count > 0 ? DIFF_DIFFERS : DIFF_SAME;
}
