// SPDX-License-Identifier: BSD-3-Clause
/*
 * json.c -- writes JSON, value by value
 *
 * Not a parser, no tree: status and doctor know what they write. Numbers above
 * 2^53 are written as they are; who reads them into a double rounds them.
 */
#include "ctl/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/text.h"

static void put_text(FILE *out, const char *text)
{
    size_t room = PORTUS_QUOTE_ROOM(strlen(text));
    char *quoted = malloc(room);

    if (quoted == NULL)
        abort(); /* half an answer would be none */
    portus_quote(quoted, room, text);
    fputs(quoted, out);
    free(quoted);
}

static void indent(struct json *json)
{
    fprintf(json->out, "\n%*s", 2 * (int)json->depth, "");
}

/* What stands before a value: comma, new line, key. */
static void lead(struct json *json, const char *key)
{
    bool *some = &json->some[json->depth - 1];

    if (*some)
        putc(',', json->out);
    *some = true;
    indent(json);
    if (key) {
        put_text(json->out, key);
        fputs(": ", json->out);
    }
}

static void enter(struct json *json, char begin, char end)
{
    if (json->depth == JSON_DEPTH)
        abort(); /* only a mistake in this program */
    putc(begin, json->out);
    json->some[json->depth] = false;
    json->end[json->depth++] = end;
}

void json_begin(struct json *json, FILE *out)
{
    *json = (struct json){.out = out};
    enter(json, '{', '}');
}

void json_close(struct json *json)
{
    json->depth--;
    if (json->some[json->depth])
        indent(json);
    putc(json->end[json->depth], json->out);
}

void json_end(struct json *json)
{
    json_close(json);
    putc('\n', json->out);
}

void json_open_object(struct json *json, const char *key)
{
    lead(json, key);
    enter(json, '{', '}');
}

void json_open_array(struct json *json, const char *key)
{
    lead(json, key);
    enter(json, '[', ']');
}

void json_text(struct json *json, const char *key, const char *text)
{
    lead(json, key);
    if (text)
        put_text(json->out, text);
    else
        fputs("null", json->out);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
    lead(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_seconds(struct json *json, const char *key, uint64_t ns)
{
    lead(json, key);
    fprintf(json->out, "%" PRIu64 ".%03u", ns / 1000000000, (unsigned)(ns / 1000000 % 1000));
}

void json_bool(struct json *json, const char *key, bool value)
{
    lead(json, key);
    fputs(value ? "true" : "false", json->out);
}
