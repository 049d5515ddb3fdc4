/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl_try_test.c -- what portusctl try makes of a file that a killed run leaves, and of timelines
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/try_known.c"
#include "ctl/try_saves.c"
#include "ctl/try_tree.c"

#define SIZE (20 * TREE_BLOCK + 100)

void complain(const char *format, ...)
{
}

static char path[] = "/tmp/portus-try-test-XXXXXX";
static char whole[SIZE], left[SIZE + 1];

static void put(const char *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, bytes, length), length);
    close(fd);
}

static enum known_as judge(const struct known *known, size_t length)
{
    struct tree_entry entry = {0};
    enum known_as as;

    put(left, length);
    assert_int_equal(tree_read_file(&entry, path), 0);
    as = known_judge(known, &entry);
    free(entry.block);
    memcpy(left, whole, SIZE);
    return as;
}

static void test_judge(void **state)
{
    struct known known = {0};

    for (size_t i = 0; i < SIZE; i++)
        whole[i] = (char)(1 + i % 251);
    put(whole, SIZE);
    known_add(&known, path, "a");
    memcpy(left, whole, SIZE);
    assert_int_equal(judge(&known, SIZE), KNOWN_WHOLE);
    for (size_t length = 0; length < SIZE; length += 3333)
        assert_int_equal(judge(&known, length), KNOWN_SHORT);
    left[SIZE] = 'x';
    assert_int_equal(judge(&known, SIZE + 1), KNOWN_NOT);
    left[5] ^= 1; /* a header that is written last */
    assert_int_equal(judge(&known, SIZE), KNOWN_PATCHED);
    left[TREE_BLOCK * 3] ^= 1;
    assert_int_equal(judge(&known, 10 * TREE_BLOCK), KNOWN_PATCHED);
    memset(left + 5 * TREE_BLOCK, 0, TREE_BLOCK); /* a hole */
    assert_int_equal(judge(&known, SIZE), KNOWN_NOT);
    memset(left + 12 * TREE_BLOCK, 0, SIZE - 12 * TREE_BLOCK);
    assert_int_equal(judge(&known, SIZE), KNOWN_NOT);
    for (size_t i = 0; i < 6; i++) /* two contents in one file */
        left[i * TREE_BLOCK] ^= 1;
    assert_int_equal(judge(&known, SIZE), KNOWN_NOT);
    known_free(&known);
    unlink(path);
}

static void test_own(void **state)
{
    struct differences found = {0}, again = {0}, own = {0};

    differences_add(&found, "log-123.txt", "extra", "x");
    differences_add(&found, "model-7.pt", "missing", "x");
    differences_add(&found, "a", "bytes", "x");
    differences_add(&again, "log-4.txt", "extra", "x");
    differences_add(&again, "model-8.pt", "missing", "x");
    differences_add(&again, "a", "size", "x");
    differences_split(&found, &again, &own);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.list[0].path, "model-7.pt");
    assert_string_equal(found.list[1].path, "a");
    assert_int_equal(own.count, 1);
    differences_free(&found);
    differences_free(&again);
    differences_free(&own);
}

static void test_saves(void **state)
{
    static const char text[] =
        "[\n"
        "{\"ph\":\"b\",\"cat\":\"save\",\"name\":\"save\",\"pid\":7,\"tid\":7,\"ts\":1000.500,\"id\":\"7.1\","
        "\"args\":{\"file\":\"/d/a\\\"\\\\\\u00e9\\ud83d\\ude00\",\"captured\":true}},\n"
        "{\"ph\":\"b\",\"cat\":\"save\",\"name\":\"save\",\"ts\":1.0,\"id\":\"7.2\",\"args\":{\"file\":\"/e\","
        "\"reason\":\"because\",\"captured\":false}},\n"
        "{\"ph\":\"X\",\"cat\":\"wait\",\"name\":\"end\",\"ts\":1.000,\"dur\":2.500,\"args\":{}},\n"
        "{\"ph\":\"e\",\"cat\":\"save\",\"name\":\"save\",\"ts\":3000.250,\"id\":\"7.1\",\"args\":{\"size\":99}},\n"
        "{\"ph\":\"e\",\"cat\":\"save\",\"ts\":9,\"id\":\"7.3\",\"args\":{\"size\":1}},\n{\"ph\":\"b\",\"cat\":\"sa";
    struct saves saves;

    put(text, sizeof(text) - 1);
    assert_int_equal(saves_read(&saves, path, "/d"), 0);
    assert_int_equal(saves.count, 2);
    assert_string_equal(saves.list[0].path, "a\"\\\xc3\xa9\xf0\x9f\x98\x80");
    assert_null(saves.list[0].reason);
    assert_true(saves.list[0].closed && saves.list[0].size == 99);
    assert_int_equal(saves.list[0].ns, 1999750);
    assert_string_equal(saves.list[1].path, "/e");
    assert_string_equal(saves.list[1].reason, "because");
    assert_false(saves.list[1].closed);
    assert_true(saves.wait_ns == 2500 && saves.end_ns == 2500);
    saves_free(&saves);
    unlink(path);
    assert_int_equal(saves_read(&saves, path, "/d"), 0);
    assert_int_equal(saves.count, 0);
}

/* A text that is cut off in an escape takes no more room than it has (its ASan build says so). */
static void test_cut_text(void **state)
{
    static const char text[] = "[\n{\"ph\":\"b\",\"cat\":\"save\",\"name\":\"save\",\"id\":\"7.1\",\"args\":{\"file\":\"/d/\\u";
    struct saves saves;

    put(text, sizeof(text) - 1);
    assert_int_equal(saves_read(&saves, path, "/d"), 0);
    if (saves.count > 0)
        assert_string_equal(saves.list[0].path, "?");
    saves_free(&saves);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_judge), cmocka_unit_test(test_own),
                                       cmocka_unit_test(test_saves), cmocka_unit_test(test_cut_text)};

    close(mkstemp(path));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
