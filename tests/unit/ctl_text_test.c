/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl_text_test.c -- what portusctl prints of untrusted text, on terminals and as JSON
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/json.c"
#include "ctl/text.c"

static void runes(void **state)
{
    static const struct {
        const char *text;
        unsigned bytes;
        uint32_t rune;
    } cases[] = {
        {"a", 1, 'a'},
        {"\x7f", 1, 0x7f},
        {"\xc3\xa9", 2, 0xe9},
        {"\xe2\x82\xac", 3, 0x20ac},
        {"\xf0\x9f\x98\x80", 4, 0x1f600},
        {"\x80", 1, PORTUS_RUNE_BAD},
        {"\xff", 1, PORTUS_RUNE_BAD},
        {"\xf8\x88\x80\x80\x80", 1, PORTUS_RUNE_BAD},
        {"\xc3", 1, PORTUS_RUNE_BAD},             /* cut by the end */
        {"\xe2\x82", 1, PORTUS_RUNE_BAD},         /* cut by the end */
        {"\xe2\x82z", 1, PORTUS_RUNE_BAD},        /* cut by another */
        {"\xc0\xaf", 1, PORTUS_RUNE_BAD},         /* a slash that takes too many bytes */
        {"\xe0\x80\xaf", 1, PORTUS_RUNE_BAD},     /* the same */
        {"\xed\xa0\x80", 1, PORTUS_RUNE_BAD},     /* a surrogate */
        {"\xf4\x90\x80\x80", 1, PORTUS_RUNE_BAD}, /* above U+10FFFF */
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t rune = 0;

        assert_int_equal(portus_rune(cases[i].text, &rune), cases[i].bytes);
        assert_int_equal(rune, cases[i].rune);
    }
}

static void safe(void **state)
{
    static const char *const cases[][2] = {
        {"/ckpt/step_1.pt", "/ckpt/step_1.pt"},
        {"", ""},
        {"a\nb\tc", "a\\nb\\tc"},
        {"\x1b[31mred", "\\x1b[31mred"},
        {"\r\x7f", "\\x0d\\x7f"},
        {"back\\slash", "back\\\\slash"},
        {"z\xc3\xbcrich \xe2\x82\xac", "z\xc3\xbcrich \xe2\x82\xac"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"},                           /* CSI as one character */
        {"x\xe2\x80\xaegnp", "x\\xe2\\x80\\xaegnp"}, /* from right to left */
        {"\xff\xc3", "\\xff\\xc3"},
    };
    char out[128];

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(text_safe(out, sizeof(out), cases[i][0]), cases[i][1]);
}

static void safe_is_cut_between_characters(void **state)
{
    char out[8];

    assert_string_equal(text_safe(out, sizeof(out), "abcdefghij"), "abcdefg");
    assert_string_equal(text_safe(out, sizeof(out), "abcde\n\n"), "abcde\\n");
    assert_string_equal(text_safe(out, sizeof(out), "abcdef\n"), "abcdef");
    assert_string_equal(text_safe(out, sizeof(out), "abcdef\xe2\x82\xac"), "abcdef");
    assert_string_equal(text_safe(out, sizeof(out), "abcd\x1b"), "abcd");
    assert_string_equal(text_safe(out, 1, "a"), "");
}

/* Every byte, alone and at each place in a long string, is printable and within its room. */
static void safe_for_any_bytes(void **state)
{
    char in[256], out[TEXT_ROOM(sizeof(in))];

    srand(1);
    for (unsigned round = 0; round < 2000; round++) {
        size_t length = (size_t)rand() % sizeof(in);

        for (size_t i = 0; i < length; i++)
            in[i] = (char)(1 + rand() % 255);
        in[length] = '\0';
        text_safe(out, sizeof(out), in);
        assert_true(strlen(out) <= 4 * length);
        for (const char *at = out; *at != '\0';) {
            uint32_t rune;

            at += portus_rune(at, &rune);
            assert_true(text_prints(rune));
        }
    }
}

static void sizes_and_spans(void **state)
{
    char out[TEXT_SPAN];

    assert_string_equal(text_bytes(out, 0), "0 B");
    assert_string_equal(text_bytes(out, 1023), "1023 B");
    assert_string_equal(text_bytes(out, 1024), "1.00 KiB");
    assert_string_equal(text_bytes(out, 1536ull << 10), "1.50 MiB");
    assert_string_equal(text_bytes(out, 640ull << 20), "640 MiB");
    assert_string_equal(text_bytes(out, (1ull << 30) - 1), "1.00 GiB");
    assert_string_equal(text_bytes(out, 23ull << 30), "23.0 GiB");
    assert_string_equal(text_bytes(out, UINT64_MAX), "16.0 EiB");
    assert_string_equal(text_span(out, 0), "0.0 s");
    assert_string_equal(text_span(out, 2345000000), "2.3 s");
    assert_string_equal(text_span(out, 45000000000), "45 s");
    assert_string_equal(text_span(out, 185000000000), "3 min 5 s");
    assert_string_equal(text_span(out, 7380000000000), "2 h 3 min");
    assert_string_equal(text_span(out, 352800000000000), "4 d 2 h");
    assert_true(strlen(text_span(out, UINT64_MAX)) < TEXT_SPAN);
    assert_string_equal(text_errno(ENOSPC), strerror(ENOSPC));
    assert_string_equal(text_errno(UINT32_MAX), text_errno(0));
}

/* What `write` puts into an object, without white space at its ends. */
static const char *written(void (*write)(struct json *json))
{
    static char text[4096];
    FILE *file = fmemopen(text, sizeof(text), "w");
    struct json json;

    assert_non_null(file);
    json_begin(&json, file);
    write(&json);
    json_end(&json);
    assert_int_equal(json.depth, 0);
    fclose(file);
    return text;
}

static void nothing(struct json *json)
{
}

static void values(struct json *json)
{
    json_text(json, "text", "a");
    json_text(json, "none", NULL);
    json_number(json, "number", UINT64_MAX);
    json_seconds(json, "seconds", 61005999999);
    json_bool(json, "yes", true);
    json_bool(json, "no", false);
}

static void nested(struct json *json)
{
    json_open_array(json, "empty");
    json_close(json);
    json_open_array(json, "list");
    json_open_object(json, NULL);
    json_number(json, "n", 1);
    json_close(json);
    json_text(json, NULL, "x");
    json_close(json);
    json_open_object(json, "object");
    json_close(json);
}

static void hostile(struct json *json)
{
    json_text(json, "k\"", "\"\\/\n\t\r\x01\x7f");
    json_text(json, "u", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    json_text(json, "bad", "\xff\xed\xa0\x80z");
}

static void json_values(void **state)
{
    assert_string_equal(written(nothing), "{}\n");
    assert_string_equal(written(values), "{\n"
                                         "  \"text\": \"a\",\n"
                                         "  \"none\": null,\n"
                                         "  \"number\": 18446744073709551615,\n"
                                         "  \"seconds\": 61.005,\n"
                                         "  \"yes\": true,\n"
                                         "  \"no\": false\n"
                                         "}\n");
}

static void json_nesting(void **state)
{
    assert_string_equal(written(nested), "{\n"
                                         "  \"empty\": [],\n"
                                         "  \"list\": [\n"
                                         "    {\n"
                                         "      \"n\": 1\n"
                                         "    },\n"
                                         "    \"x\"\n"
                                         "  ],\n"
                                         "  \"object\": {}\n"
                                         "}\n");
}

static void json_escapes(void **state)
{
    assert_string_equal(written(hostile), "{\n"
                                          "  \"k\\\"\": \"\\\"\\\\/\\n\\t\\u000d\\u0001\\u007f\",\n"
                                          "  \"u\": \"\\u00e9\\u20ac\\ud83d\\ude00\",\n"
                                          "  \"bad\": \"\\ufffd\\ufffd\\ufffd\\ufffdz\"\n"
                                          "}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runes),
        cmocka_unit_test(safe),
        cmocka_unit_test(safe_is_cut_between_characters),
        cmocka_unit_test(safe_for_any_bytes),
        cmocka_unit_test(sizes_and_spans),
        cmocka_unit_test(json_values),
        cmocka_unit_test(json_nesting),
        cmocka_unit_test(json_escapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
