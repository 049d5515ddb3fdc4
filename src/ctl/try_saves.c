/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * try_saves.c -- what a timeline (PORTUS_TRACE) says of the saves of a run
 *
 * Not a JSON parser: it reads the lines that src/common/trace.c writes, by their members'
 * names, and believes no line that lacks one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/try.h"

#define LINE 8192
#define OPEN 4096

/* A save that has begun and not ended: its id and its place in the list. */
struct open_save {
    char id[48];
    size_t place;
    uint64_t began;
};

/* What follows "name": in line, or NULL. */
static const char *member(const char *line, const char *name)
{
    char key[64];
    const char *at;

    snprintf(key, sizeof(key), "\"%s\":", name);
    at = strstr(line, key);
    return at != NULL ? at + strlen(key) : NULL;
}

static bool is(const char *line, const char *name, const char *text)
{
    const char *value = member(line, name);
    size_t length = strlen(text);

    return value != NULL && value[0] == '"' && strncmp(value + 1, text, length) == 0 &&
           value[length + 1] == '"';
}

static uint64_t number(const char *line, const char *name)
{
    const char *value = member(line, name);

    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

/* Microseconds with a fraction. */
static uint64_t nanoseconds(const char *line, const char *name)
{
    const char *value = member(line, name);
    char *end;
    uint64_t us, rest = 0;

    if (value == NULL)
        return 0;
    us = strtoull(value, &end, 10);
    if (*end == '.')
        rest = strtoull(end + 1, NULL, 10);
    return us * 1000 + rest;
}

static size_t put_utf8(char *out, unsigned rune)
{
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    if (rune < 0x800) {
        out[0] = (char)(0xc0 | rune >> 6);
        out[1] = (char)(0x80 | (rune & 0x3f));
        return 2;
    }
    if (rune < 0x10000) {
        out[0] = (char)(0xe0 | rune >> 12);
        out[1] = (char)(0x80 | (rune >> 6 & 0x3f));
        out[2] = (char)(0x80 | (rune & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | rune >> 18);
    out[1] = (char)(0x80 | (rune >> 12 & 0x3f));
    out[2] = (char)(0x80 | (rune >> 6 & 0x3f));
    out[3] = (char)(0x80 | (rune & 0x3f));
    return 4;
}

/* Of a text that is cut off: one byte, as there is room for no more than was read. */
static unsigned hex(const char **at)
{
    char digits[5] = "";

    if (strlen(*at) < 4)
        return '?';
    memcpy(digits, *at, 4);
    *at += 4;
    return (unsigned)strtoul(digits, NULL, 16);
}

/* A text as portus_quote() has written it; allocated, or NULL. */
static char *text(const char *line, const char *name)
{
    const char *at = member(line, name);
    char *out, *end;

    if (at == NULL || *at++ != '"')
        return NULL;
    out = end = malloc(strlen(at) + 1);
    while (out != NULL && *at != '\0' && *at != '"') {
        unsigned rune;

        if (*at != '\\') {
            *end++ = *at++;
            continue;
        }
        at++;
        rune = (unsigned char)*at;
        if (*at != '\0')
            at++;
        if (rune == 'n')
            rune = '\n';
        else if (rune == 't')
            rune = '\t';
        else if (rune == 'u') {
            rune = hex(&at);
            if (rune >= 0xd800 && rune < 0xdc00 && strncmp(at, "\\u", 2) == 0) {
                at += 2;
                rune = 0x10000 + ((rune - 0xd800) << 10) + (hex(&at) & 0x3ff);
            }
        }
        end += put_utf8(end, rune);
    }
    if (out != NULL)
        *end = '\0';
    return out;
}

static void begin(struct saves *saves, struct open_save *open, size_t *opened, const char *line,
                  const char *directory)
{
    const char *id = member(line, "id");
    struct save *list, *save;
    char *path = text(line, "file");
    size_t length = strlen(directory);

    if (path == NULL || id == NULL || *opened == OPEN)
        goto free;
    list = realloc(saves->list, (saves->count + 1) * sizeof(*list));
    if (list == NULL)
        goto free;
    saves->list = list;
    save = &list[saves->count];
    *save = (struct save){.path = path, .reason = text(line, "reason")};
    if (strncmp(path, directory, length) == 0 && path[length] == '/')
        memmove(path, path + length + 1, strlen(path + length + 1) + 1);
    open[*opened].place = saves->count++;
    open[*opened].began = nanoseconds(line, "ts");
    snprintf(open[(*opened)++].id, sizeof(open[0].id), "%.*s", (int)strcspn(id + 1, "\""), id + 1);
    return;

free:
    free(path);
}

static void end(struct saves *saves, struct open_save *open, size_t *opened, const char *line)
{
    for (size_t i = 0; i < *opened; i++) {
        struct save *save = &saves->list[open[i].place];
        uint64_t ended = nanoseconds(line, "ts");

        if (!is(line, "id", open[i].id))
            continue;
        save->size = number(line, "size");
        save->ns = ended > open[i].began ? ended - open[i].began : 0;
        save->closed = true;
        open[i] = open[--*opened];
        return;
    }
}

int saves_read(struct saves *saves, const char *trace, const char *directory)
{
    static struct open_save open[OPEN];
    static char line[LINE];
    uint64_t first = 0;
    size_t opened = 0;
    FILE *file = fopen(trace, "re");

    *saves = (struct saves){0};
    if (file == NULL)
        return errno == ENOENT ? 0 : -errno; /* nothing came that would be in it */
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t at = nanoseconds(line, "ts");

        if (is(line, "cat", "save") && first == 0)
            first = at;
        if (is(line, "cat", "save") && at > first + saves->span_ns)
            saves->span_ns = at - first;
        if (is(line, "cat", "wait")) {
            uint64_t waited = nanoseconds(line, "dur");

            saves->wait_ns += waited;
            saves->end_ns += is(line, "name", "end") ? waited : 0;
        } else if (is(line, "cat", "capture")) {
            saves->bytes_captured += number(line, "bytes");
        } else if (is(line, "cat", "save") && is(line, "ph", "b")) {
            begin(saves, open, &opened, line, directory);
        } else if (is(line, "cat", "save") && is(line, "ph", "e")) {
            end(saves, open, &opened, line);
        }
    }
    fclose(file);
    return 0;
}

void saves_free(struct saves *saves)
{
    for (size_t i = 0; i < saves->count; i++) {
        free(saves->list[i].path);
        free(saves->list[i].reason);
    }
    free(saves->list);
    *saves = (struct saves){0};
}
