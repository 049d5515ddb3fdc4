// SPDX-License-Identifier: BSD-3-Clause
/*
 * try_report.c -- portusctl try: the verdict, with the evidence
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/text.h"
#include "ctl/try.h"

#define ROWS 20

/* All saves of one path, plainly and captured. */
struct row {
    const char *path, *reason;
    uint64_t size;                             /* of the last */
    uint64_t saves, ns, plain_saves, plain_ns; /* that were closed */
};

struct table {
    struct row *row;
    size_t count;
    uint64_t files, captured; /* saves */
    uint64_t both;            /* saves that are measured plainly and captured */
    uint64_t ns, plain_ns;    /* of those captured ones that both have */
};

static struct row *row_of(struct table *table, const char *path)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->row[i].path, path) == 0)
            return &table->row[i];
    table->row[table->count] = (struct row){.path = path};
    return &table->row[table->count++];
}

static struct table make_table(const struct trial *trial)
{
    struct table table = {0};

    table.row = calloc(trial->saves.count + trial->plain_saves.count + 1, sizeof(struct row));
    if (table.row == NULL)
        abort();
    for (size_t i = 0; i < trial->saves.count; i++) {
        const struct save *save = &trial->saves.list[i];
        struct row *row = row_of(&table, save->path);

        table.files++;
        table.captured += save->reason == NULL;
        row->reason = save->reason;
        row->size = save->closed ? save->size : row->size;
        row->saves += save->closed;
        row->ns += save->ns;
    }
    for (size_t i = 0; i < trial->plain_saves.count; i++) {
        const struct save *save = &trial->plain_saves.list[i];
        struct row *row = row_of(&table, save->path);

        row->plain_saves += save->closed;
        row->plain_ns += save->ns;
    }
    for (size_t i = 0; i < table.count; i++) {
        const struct row *row = &table.row[i];

        if (row->reason != NULL || row->saves == 0 || row->saves != row->plain_saves)
            continue;
        table.both += row->saves;
        table.ns += row->ns;
        table.plain_ns += row->plain_ns;
    }
    return table;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double gain(uint64_t plain, uint64_t ours)
{
    return ours > 0 ? (double)plain / (double)ours : 0;
}

static const char *ended(int status, char text[40])
{
    if (WIFSIGNALED(status))
        snprintf(text, 40, "signal %d", WTERMSIG(status));
    else
        snprintf(text, 40, "exit status %d", WEXITSTATUS(status));
    return text;
}

/* One sentence. */
static void verdict(const struct trial *trial, const struct table *table, char *out, size_t room)
{
    if (trial->found.count > 0)
        snprintf(out, room, "%zu thing%s with Portus", trial->found.count,
                 trial->found.count == 1 ? " differs" : "s differ");
    else if (table->captured == 0)
        snprintf(out, room, "nothing differs; no save was captured");
    else if (table->ns == 0 || table->plain_ns == 0)
        snprintf(out, room, "nothing differs; what a save gains could not be measured");
    else if (table->plain_ns > table->ns)
        snprintf(out, room,
                 "nothing differs; a save takes %.3f s instead of %.3f s: %.1f times "
                 "faster",
                 seconds(table->ns) / (double)table->both,
                 seconds(table->plain_ns) / (double)table->both, gain(table->plain_ns, table->ns));
    else
        snprintf(out, room, "nothing differs; saves are not faster");
}

static void print_rows(const struct table *table)
{
    char path[TEXT_ROOM(PATH_MAX)], size[TEXT_BYTES];
    size_t shown = 0;

    if (table->count == 0)
        return;
    printf("\n%10s  %5s  %9s  %9s  %7s  %s\n", "SIZE", "SAVES", "PLAIN s", "PORTUS s", "x FASTER",
           "FILE");
    for (size_t i = 0; i < table->count && shown < ROWS; i++) {
        const struct row *row = &table->row[i];
        double plain = row->plain_saves > 0 ? seconds(row->plain_ns) / (double)row->plain_saves : 0;
        double ours = row->saves > 0 ? seconds(row->ns) / (double)row->saves : 0;

        printf("%10s  %5" PRIu64 "  %9.3f  %9.3f  ", text_bytes(size, row->size),
               row->saves > 0 ? row->saves : row->plain_saves, plain, ours);
        if (row->reason == NULL && plain > 0 && ours > 0)
            printf("%7.1f   %s\n", plain / ours, text_safe(path, sizeof(path), row->path));
        else
            printf("%7s   %s\n", "-", text_safe(path, sizeof(path), row->path));
        shown++;
        if (row->reason != NULL)
            printf("%50s not captured: %s\n", "", row->reason);
    }
    if (shown < table->count)
        printf("%50s and %zu more files\n", "", table->count - shown);
    putchar('\n');
}

static void print_differences(const struct differences *list, const char *title)
{
    char path[TEXT_ROOM(PATH_MAX)], says[TEXT_ROOM(PATH_MAX + 256)];

    for (size_t i = 0; i < list->count; i++)
        printf("%-9s  %s %s\n", i == 0 ? title : "",
               text_safe(path, sizeof(path), list->list[i].path),
               text_safe(says, sizeof(says), list->list[i].says));
}

static void print_kills(const struct trial *trial)
{
    if (trial->kills == 0) {
        printf("kills      none\n");
        return;
    }
    printf("kills      %" PRIu64 " of the program with its agent, %" PRIu64
           " of the program alone, %" PRIu64 " came after the end\n",
           trial->killed.all, trial->killed.program, trial->killed.idle);
    printf("           they left %" PRIu64 " files whole, %" PRIu64 " short, %" PRIu64
           " to be patched",
           trial->killed.whole, trial->killed.shorter, trial->killed.patched);
    if (trial->killed.unknown > 0)
        printf(", %" PRIu64 " in states that plain runs leave, too", trial->killed.unknown);
    if (trial->killed.incomparable > 0)
        printf(", %" PRIu64 " that differ from run to run", trial->killed.incomparable);
    putchar('\n');
    if (trial->killed.resumes)
        printf("           run again, %" PRIu64 " of %" PRIu64 " came to the same end\n",
               trial->killed.resumed, trial->killed.resumed + trial->killed.not_resumed);
    else
        printf("           run again after a kill the command does not come to the same end "
               "plainly either\n");
}

static void print_full(const struct trial *trial)
{
    char bytes[TEXT_BYTES], one[40], two[40];

    if (trial->full.how == NULL) {
        printf("full disk  not tried: %s\n", trial->full.why);
        return;
    }
    printf("full disk  %s %s: %s, plainly %s", trial->full.how,
           text_bytes(bytes, trial->full.bytes), ended(trial->full.status, one),
           ended(trial->full.plain_status, two));
    printf("%s%s\n", trial->full.why != NULL ? "; no disk: " : "",
           trial->full.why != NULL ? trial->full.why : "");
}

static void print_all(const struct trial *trial, const struct table *table, const char *words)
{
    char one[40], two[40], bytes[TEXT_BYTES];

    printf("plain      %s, %.2f s\n", ended(trial->plain.status, one), seconds(trial->plain.ns));
    printf("Portus     %s, %.2f s; %" PRIu64 " of %" PRIu64 " saves captured, %s\n",
           ended(trial->shimmed.status, two), seconds(trial->shimmed.ns), table->captured,
           table->files, text_bytes(bytes, trial->saves.bytes_captured));
    printf("waits      %.3f s, %.3f s of it at the program's end; plainly %.3f s (fsync)\n",
           seconds(trial->saves.wait_ns), seconds(trial->saves.end_ns),
           seconds(trial->plain_saves.wait_ns));
    print_rows(table);
    print_kills(trial);
    print_full(trial);
    print_differences(&trial->own, "by itself");
    print_differences(&trial->found, "DIFFERS");
    printf("verdict    %s\n", words);
}

static void write_differences(struct json *json, const char *key, const struct differences *list)
{
    json_open_array(json, key);
    for (size_t i = 0; i < list->count; i++) {
        json_open_object(json, NULL);
        json_text(json, "path", list->list[i].path);
        json_text(json, "what", list->list[i].what);
        json_text(json, "says", list->list[i].says);
        json_close(json);
    }
    json_close(json);
}

static void write_outcome(struct json *json, const char *key, const struct outcome *outcome)
{
    char text[40];

    json_open_object(json, key);
    json_text(json, "ended", ended(outcome->status, text));
    json_seconds(json, "seconds", outcome->ns);
    json_bool(json, "late", outcome->late);
    json_bool(json, "left_processes", outcome->left);
    json_close(json);
}

static void write_saves(struct json *json, const struct table *table)
{
    json_open_array(json, "saves");
    for (size_t i = 0; i < table->count; i++) {
        const struct row *row = &table->row[i];

        json_open_object(json, NULL);
        json_text(json, "path", row->path);
        json_bool(json, "captured", row->saves > 0 && row->reason == NULL);
        json_text(json, "reason", row->reason);
        json_number(json, "size", row->size);
        json_number(json, "saves", row->saves);
        json_seconds(json, "seconds", row->ns);
        json_number(json, "plain_saves", row->plain_saves);
        json_seconds(json, "plain_seconds", row->plain_ns);
        json_close(json);
    }
    json_close(json);
}

static void write_harm(struct json *json, const struct trial *trial)
{
    char text[40];

    json_open_object(json, "kills");
    json_number(json, "all", trial->killed.all);
    json_number(json, "program", trial->killed.program);
    json_number(json, "after_end", trial->killed.idle);
    json_number(json, "whole", trial->killed.whole);
    json_number(json, "short", trial->killed.shorter);
    json_number(json, "patched", trial->killed.patched);
    json_number(json, "as_plainly", trial->killed.unknown);
    json_number(json, "incomparable", trial->killed.incomparable);
    json_number(json, "resumed", trial->killed.resumed);
    json_number(json, "not_resumed", trial->killed.not_resumed);
    json_bool(json, "resumes_plainly", trial->killed.resumes);
    json_close(json);
    json_open_object(json, "full_disk");
    json_text(json, "how", trial->full.how);
    json_text(json, "why_not", trial->full.why);
    json_number(json, "bytes", trial->full.bytes);
    json_text(json, "plain",
              trial->full.how != NULL ? ended(trial->full.plain_status, text) : NULL);
    json_text(json, "portus", trial->full.how != NULL ? ended(trial->full.status, text) : NULL);
    json_close(json);
}

static void write_all(const struct trial *trial, const struct table *table, const char *words)
{
    struct json json;

    json_begin(&json, stdout);
    json_text(&json, "verdict", words);
    json_bool(&json, "differs", trial->found.count > 0);
    write_outcome(&json, "plain", &trial->plain);
    write_outcome(&json, "portus", &trial->shimmed);
    json_number(&json, "captured", table->captured);
    json_number(&json, "not_captured", table->files - table->captured);
    json_number(&json, "captured_bytes", trial->saves.bytes_captured);
    json_seconds(&json, "waited", trial->saves.wait_ns);
    json_seconds(&json, "waited_at_end", trial->saves.end_ns);
    json_seconds(&json, "waited_plainly", trial->plain_saves.wait_ns);
    write_saves(&json, table);
    write_harm(&json, trial);
    write_differences(&json, "differences", &trial->found);
    write_differences(&json, "by_itself", &trial->own);
    json_end(&json);
}

int trial_report(const struct trial *trial, bool json)
{
    struct table table = make_table(trial);
    char words[200];

    verdict(trial, &table, words, sizeof(words));
    if (json)
        write_all(trial, &table, words);
    else
        print_all(trial, &table, words);
    free(table.row);
    return trial->found.count > 0 ? CTL_FAILED : CTL_OK;
}
