/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h -- writes JSON, value by value
 *
 * Inside an object each value has a key, inside an array key is NULL. Whoever
 * opens closes. The text is ASCII: it is valid whatever a path contains.
 */
#ifndef PORTUS_CTL_JSON_H
#define PORTUS_CTL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH 8

struct json {
    FILE *out;
    unsigned depth;
    bool some[JSON_DEPTH]; /* this level has a value already */
    char end[JSON_DEPTH];  /* what closes it */
};

/* Begins with an open object; json_end() closes it and ends the line. */
void json_begin(struct json *json, FILE *out);
void json_end(struct json *json);

void json_open_object(struct json *json, const char *key);
void json_open_array(struct json *json, const char *key);
void json_close(struct json *json);

/* Bytes that are not UTF-8 become U+FFFD. NULL becomes null. */
void json_text(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, uint64_t value);
void json_seconds(struct json *json, const char *key, uint64_t ns);
void json_bool(struct json *json, const char *key, bool value);

#endif
