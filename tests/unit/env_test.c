/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env_test.c -- each variable: default, right values, wrong ones and what is said; globs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env.h"
#include "common/log.h"

static char log_path[] = "/tmp/portus-env-test-XXXXXX";
static struct portus_env env;
static char said[16384];

/* Loads the environment; `said` is what was logged. */
static int load(void)
{
    FILE *file;
    size_t length;
    int wrong;

    assert_int_equal(truncate(log_path, 0), 0);
    memset(&env, 0xee, sizeof(env));
    wrong = portus_env_load(&env);
    file = fopen(log_path, "r");
    assert_non_null(file);
    length = fread(said, 1, sizeof(said) - 1, file);
    said[length] = '\0';
    fclose(file);
    return wrong;
}

static int clean(void **state)
{
    for (unsigned i = 0; i < portus_env_variable_count; i++)
        unsetenv(portus_env_variables[i].name);
    return 0;
}

static int setup(void **state)
{
    int fd = mkstemp(log_path);

    assert_true(fd >= 0);
    close(fd);
    portus_log_setup(PORTUS_LOG_WARN, log_path, "t: ");
    return clean(state);
}

static int teardown(void **state)
{
    portus_log_setup(PORTUS_LOG_WARN, NULL, "t: ");
    unlink(log_path);
    return 0;
}

static void check_defaults(void)
{
    assert_int_equal(env.mode, PORTUS_AUTO);
    assert_int_equal(env.close, PORTUS_CLOSE_CAPTURED);
    assert_int_equal(env.order, PORTUS_ORDER_STRICT);
    assert_int_equal(env.crc, PORTUS_CRC_OFFLOAD);
    assert_int_equal(env.promise, PORTUS_PROMISE_AUTO);
    assert_int_equal(env.summary, 0);
    assert_int_equal(env.shared, 0);
    assert_int_equal(env.ring_size, 0);
    assert_int_equal(env.min_write, 1 << 20);
    assert_int_equal(env.sample, 20);
    assert_int_equal(env.log_level, PORTUS_LOG_WARN);
    assert_string_equal(env.log_file, "");
    assert_string_equal(env.exclude, "");
    assert_string_equal(env.job, "");
    assert_string_equal(env.agent, "");
    assert_true(portus_env_match(env.match, "a/model.pt"));
}

static void test_defaults(void **state)
{
    assert_int_equal(load(), 0);
    check_defaults();
    assert_string_equal(said, "");
}

/* Each default by name is the same as none, and is right. */
static void test_defaults_as_values(void **state)
{
    struct portus_env before;

    load();
    before = env;
    for (unsigned i = 0; i < portus_env_variable_count; i++)
        setenv(portus_env_variables[i].name, portus_env_variables[i].fallback, 1);
    assert_int_equal(load(), 0);
    assert_string_equal(said, "");
    assert_memory_equal(&env, &before, sizeof(env));
}

static void test_table(void **state)
{
    assert_true(portus_env_variable_count >= 14);
    for (unsigned i = 0; i < portus_env_variable_count; i++) {
        const struct portus_env_variable *variable = &portus_env_variables[i];

        assert_true(strncmp(variable->name, "PORTUS", 6) == 0);
        assert_true(strlen(variable->name) < 32 && variable->values[0] && variable->doc[0]);
        assert_true(strlen(variable->fallback) < PORTUS_ENV_TEXT);
    }
}

static const struct {
    const char *name, *value;
    int number; /* of the choice */
    const int *field;
} choices[] = {
    {"PORTUS", "auto", PORTUS_AUTO, &env.mode},
    {"PORTUS", "require", PORTUS_REQUIRE, &env.mode},
    {"PORTUS", "report", PORTUS_REPORT, &env.mode},
    {"PORTUS", "off", PORTUS_OFF, &env.mode},
    {"PORTUS_SHARED", "0", 0, &env.shared},
    {"PORTUS_SHARED", "1", 1, &env.shared},
    {"PORTUS_SHARED", "2", 2, &env.shared},
    {"PORTUS_CLOSE", "captured", PORTUS_CLOSE_CAPTURED, &env.close},
    {"PORTUS_CLOSE", "drained", PORTUS_CLOSE_DRAINED, &env.close},
    {"PORTUS_CLOSE", "durable", PORTUS_CLOSE_DURABLE, &env.close},
    {"PORTUS_ORDER", "strict", PORTUS_ORDER_STRICT, &env.order},
    {"PORTUS_ORDER", "relaxed", PORTUS_ORDER_RELAXED, &env.order},
    {"PORTUS_CRC", "offload", PORTUS_CRC_OFFLOAD, &env.crc},
    {"PORTUS_CRC", "exact", PORTUS_CRC_EXACT, &env.crc},
    {"PORTUS_PROMISE", "auto", PORTUS_PROMISE_AUTO, &env.promise},
    {"PORTUS_PROMISE", "off", PORTUS_PROMISE_OFF, &env.promise},
    {"PORTUS_SUMMARY", "0", 0, &env.summary},
    {"PORTUS_SUMMARY", "1", 1, &env.summary},
    {"PORTUS_LOG", "error", PORTUS_LOG_ERROR, &env.log_level},
    {"PORTUS_LOG", "warn", PORTUS_LOG_WARN, &env.log_level},
    {"PORTUS_LOG", "info", PORTUS_LOG_INFO, &env.log_level},
    {"PORTUS_LOG", "debug", PORTUS_LOG_DEBUG, &env.log_level},
};

static void test_choices(void **state)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        clean(state);
        setenv(choices[i].name, choices[i].value, 1);
        assert_int_equal(load(), 0);
        assert_int_equal(*choices[i].field, choices[i].number);
        assert_string_equal(said, "");
    }
}

static void test_sizes(void **state)
{
    static const struct {
        const char *name, *value;
        uint64_t bytes;
        const uint64_t *field;
    } right[] = {
        {"PORTUS_RING_SIZE", "0", 0, &env.ring_size},
        {"PORTUS_RING_SIZE", "16M", 16u << 20, &env.ring_size},
        {"PORTUS_RING_SIZE", "16777216", 16u << 20, &env.ring_size},
        {"PORTUS_RING_SIZE", "16384k", 16u << 20, &env.ring_size},
        {"PORTUS_RING_SIZE", "3G", 3ull << 30, &env.ring_size},
        {"PORTUS_RING_SIZE", "64g", 64ull << 30, &env.ring_size},
        {"PORTUS_MIN_WRITE", "1", 1, &env.min_write},
        {"PORTUS_MIN_WRITE", "64K", 64u << 10, &env.min_write},
        {"PORTUS_MIN_WRITE", "2m", 2u << 20, &env.min_write},
        {"PORTUS_MIN_WRITE", "17179869183G", 17179869183ull << 30, &env.min_write},
        {"PORTUS_SAMPLE", "0", 0, &env.sample},
        {"PORTUS_SAMPLE", "7", 7, &env.sample},
    };

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        clean(state);
        setenv(right[i].name, right[i].value, 1);
        assert_int_equal(load(), 0);
        assert_true(*right[i].field == right[i].bytes);
        assert_string_equal(said, "");
    }
}

static void test_texts(void **state)
{
    setenv("PORTUS_JOB", "job 17", 1);
    setenv("PORTUS_AGENT", "/opt/portus-agent", 1);
    setenv("PORTUS_LOG", "info:/var/log/a:b", 1);
    assert_int_equal(load(), 0);
    assert_string_equal(env.job, "job 17");
    assert_string_equal(env.agent, "/opt/portus-agent");
    assert_int_equal(env.log_level, PORTUS_LOG_INFO);
    assert_string_equal(env.log_file, "/var/log/a:b");
    assert_false(env.log_json);

    setenv("PORTUS_LOG", "debug,json:/a,json", 1);
    assert_int_equal(load(), 0);
    assert_true(env.log_json);
    assert_int_equal(env.log_level, PORTUS_LOG_DEBUG);
    assert_string_equal(env.log_file, "/a,json");
    setenv("PORTUS_LOG", "error,json", 1);
    assert_int_equal(load(), 0);
    assert_true(env.log_json);
    assert_string_equal(env.log_file, "");
    setenv("PORTUS_LOG", "error,jsonl", 1);
    assert_int_equal(load(), 1);
    setenv("PORTUS_LOG", ",json", 1);
    assert_int_equal(load(), 1);
}

static void test_globs(void **state)
{
    setenv("PORTUS_MATCH", "*.x", 1);
    setenv("PORTUS_EXCLUDE", "tmp*:*/cache/*", 1);
    assert_int_equal(load(), 0);
    assert_string_equal(env.match, "*.x");
    assert_string_equal(env.exclude, "tmp*:*/cache/*");

    setenv("PORTUS_MATCH", "+:*.x:*.y", 1);
    setenv("PORTUS_EXCLUDE", "+:*.z", 1);
    assert_int_equal(load(), 0);
    assert_true(portus_env_match(env.match, "a.x"));
    assert_true(portus_env_match(env.match, "a.y"));
    assert_true(portus_env_match(env.match, "a.safetensors"));
    assert_string_equal(env.exclude, "*.z");

    /* Empty is a value here: no name is a checkpoint's. */
    setenv("PORTUS_MATCH", "", 1);
    assert_int_equal(load(), 0);
    assert_false(portus_env_match(env.match, "a.pt"));
}

static void test_empty_is_unset(void **state)
{
    for (unsigned i = 0; i < portus_env_variable_count; i++)
        if (strcmp(portus_env_variables[i].name, "PORTUS_MATCH") != 0)
            setenv(portus_env_variables[i].name, "", 1);
    assert_int_equal(load(), 0);
    check_defaults();
    assert_string_equal(said, "");
}

static void test_wrong(void **state)
{
    static const struct {
        const char *name, *value, *line;
    } wrong[] = {
        {"PORTUS", "on", "PORTUS=on is not one of auto, require, report, off: auto is used"},
        {"PORTUS", "aut", NULL},
        {"PORTUS", "auto ", NULL},
        {"PORTUS", "auto|require", NULL},
        {"PORTUS", "AUTO", NULL},
        {"PORTUS_RING_SIZE", "5M", "PORTUS_RING_SIZE=5M is not one of 0, 16M or more: 0 is used"},
        {"PORTUS_RING_SIZE", "16777215", NULL},
        {"PORTUS_RING_SIZE", "1T", NULL},
        {"PORTUS_RING_SIZE", "M", NULL},
        {"PORTUS_RING_SIZE", "-1", NULL},
        {"PORTUS_RING_SIZE", "+16M", NULL},
        {"PORTUS_RING_SIZE", "1.5G", NULL},
        {"PORTUS_RING_SIZE", "16M ", NULL},
        {"PORTUS_RING_SIZE", "16MB", NULL},
        {"PORTUS_RING_SIZE", "0x1000000", NULL},
        {"PORTUS_RING_SIZE", "18446744073709551616", NULL},
        {"PORTUS_RING_SIZE", "17179869184G", NULL},
        {"PORTUS_MIN_WRITE", "0", "PORTUS_MIN_WRITE=0 is not 1 or more: 1M is used"},
        {"PORTUS_MIN_WRITE", "x", NULL},
        {"PORTUS_SHARED", "3", "PORTUS_SHARED=3 is not one of 0, 1, 2: 0 is used"},
        {"PORTUS_SHARED", "01", NULL},
        {"PORTUS_CLOSE", "now",
         "PORTUS_CLOSE=now is not one of captured, drained, durable: captured is used"},
        {"PORTUS_ORDER", "foo", "PORTUS_ORDER=foo is not one of strict, relaxed: strict is used"},
        {"PORTUS_CRC", "none", "PORTUS_CRC=none is not one of offload, exact: offload is used"},
        {"PORTUS_LOG", "loud",
         "PORTUS_LOG=loud is not one of error, warn, info, debug[,json][:FILE]: warn is used"},
        {"PORTUS_LOG", "info:", NULL},
        {"PORTUS_LOG", ":file", NULL},
        {"PORTUS_LOG", "debug[:FILE]", NULL},
        {"PORTUS_SUMMARY", "yes", "PORTUS_SUMMARY=yes is not one of 0, 1: 0 is used"},
        {"PORTUS_SAMPLE", "2K", "PORTUS_SAMPLE=2K is not 0 or more: 20 is used"},
        {"PORTUS_SAMPLE", "all", NULL},
        {"PORTUS_STORE", "pool",
         "PORTUS_STORE=pool is not one of /PATH, unix:/PATH, tcp://HOST[:PORT], "
         "rdma://HOST[:PORT]: none is used"},
        {"PORTUS_STORE", "tcp://", NULL},
        {"PORTUS_STORE", "tcp://host:", NULL},
        {"PORTUS_STORE", "tcp://host:65536", NULL},
        {"PORTUS_STORE", "tcp://ho st", NULL},
        {"PORTUS_STORE", "tcp://[::1", NULL},
        {"PORTUS_STORE", "tcp://a,", NULL},
        {"PORTUS_STORE", "tcp://a,/pool", NULL},
        {"PORTUS_STORE", "http://a", NULL},
        {"PORTUS_STORE", "unix:", NULL},
        {"PORTUS_STORE", "unix:store.sock", NULL},
        {"PORTUS_STORE", "UNIX:/s", NULL},
        {"PORTUS_STORE",
         "unix:/1234567890/234567890/234567890/234567890/234567890/234567890/234567890/234567890/"
         "234567890/234567890/2345678",
         NULL},
    };
    char line[200];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        clean(state);
        setenv(wrong[i].name, wrong[i].value, 1);
        assert_int_equal(load(), 1);
        check_defaults();
        if (wrong[i].line != NULL) {
            snprintf(line, sizeof(line), "t: %s\n", wrong[i].line);
            assert_string_equal(said, line);
        } else {
            assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
        }
    }
}

static void test_too_long(void **state)
{
    static const char *const names[] = {"PORTUS_MATCH", "PORTUS_EXCLUDE", "PORTUS_JOB",
                                        "PORTUS_AGENT"};
    char text[PORTUS_ENV_TEXT + 8];

    memset(text, 'x', PORTUS_ENV_TEXT);
    text[PORTUS_ENV_TEXT] = '\0';
    for (size_t i = 0; i < 4; i++) {
        setenv(names[i], text + 1, 1);
        assert_int_equal(load(), 0);
        setenv(names[i], text, 1);
        assert_int_equal(load(), 1);
        check_defaults();
        assert_non_null(strstr(said, names[i]));
        assert_non_null(strstr(said, "is longer than 1023 bytes"));
        unsetenv(names[i]);
    }
    /* Too long together with the default. */
    memcpy(text, "+:", 2);
    setenv("PORTUS_MATCH", text + 0, 1);
    assert_int_equal(load(), 1);
    check_defaults();

    memcpy(text, "info:", 5);
    text[PORTUS_ENV_TEXT + 4] = '\0';
    memset(text + 5, 'x', PORTUS_ENV_TEXT - 1);
    clean(state);
    setenv("PORTUS_LOG", text, 1);
    assert_int_equal(load(), 0);
    assert_int_equal(strlen(env.log_file), PORTUS_ENV_TEXT - 1);
    strcat(text, "x");
    setenv("PORTUS_LOG", text, 1);
    assert_int_equal(load(), 1);
    check_defaults();
}

static void test_quiet_when_only_errors_are_wanted(void **state)
{
    setenv("PORTUS_LOG", "error", 1);
    setenv("PORTUS_ORDER", "foo", 1);
    setenv("PORTUS_NONSENSE", "1", 1);
    assert_int_equal(load(), 1);
    assert_string_equal(said, "");
    unsetenv("PORTUS_NONSENSE");
}

static void test_unknown_names(void **state)
{
    static const struct {
        const char *name, *line;
    } unknown[] = {
        {"PORTUS_ODER", "PORTUS_ODER is not known to this version: ignored "
                        "(is PORTUS_ORDER meant?)"},
        {"PORTUS_RINGSIZE", "PORTUS_RINGSIZE is not known to this version: ignored "
                            "(is PORTUS_RING_SIZE meant?)"},
        {"PORTUS_LGO", "PORTUS_LGO is not known to this version: ignored "
                       "(is PORTUS_LOG meant?)"},
        {"PORTUS_SHELF", "PORTUS_SHELF is not known to this version: ignored"},
        {"PORTUS_KEEQ", "PORTUS_KEEQ is not known to this version: ignored "
                        "(is PORTUS_KEEP meant?)"},
        {"PORTUS_BANANA", "PORTUS_BANANA is not known to this version: ignored"},
        {"PORTUS_RESTOR", "PORTUS_RESTOR is not known to this version: ignored "
                          "(is PORTUS_RESTORE meant?)"},
        {"PORTUS_A_NAME_THAT_IS_MUCH_LONGER_THAN_ANY",
         "PORTUS_A_NAME_THAT_IS_MUCH_LONGER_THAN_ANY is not known to this version: ignored"},
    };
    char line[200];

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        setenv(unknown[i].name, "x", 1);
        assert_int_equal(load(), 0);
        check_defaults();
        snprintf(line, sizeof(line), "t: %s\n", unknown[i].line);
        assert_string_equal(said, line);
        unsetenv(unknown[i].name);
    }
    setenv("PORTUSX", "x", 1); /* not ours */
    load();
    assert_string_equal(said, "");
    unsetenv("PORTUSX");
}

static void test_default_match(void **state)
{
    static const char *const yes[] = {"model.pt",
                                      "/a/b/pytorch_model.bin",
                                      "x.pth",
                                      "checkpoint_12.pth.tar",
                                      "epoch=3-step=9.ckpt",
                                      "model-00001-of-00002.safetensors",
                                      "__0_0.distcp",
                                      "mp_rank_00_model_states.pt",
                                      "w.npy",
                                      "w.npz",
                                      "w.h5",
                                      "w.hdf5",
                                      "w.keras",
                                      "w.pkl",
                                      "w.pickle",
                                      "w.joblib",
                                      "flax_model.msgpack",
                                      "m.pdparams",
                                      "m.pdopt",
                                      "ckpt-7.data-00000-of-00001",
                                      "m.nemo"};
    static const char *const no[] = {"train.log", "pt", "/a.pt/b", "data.csv", "x.txt", "", "/"};

    load();
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        assert_true(portus_env_match(env.match, yes[i]));
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        assert_false(portus_env_match(env.match, no[i]));
}

static void test_match(void **state)
{
    /* Without a slash: the last component. With one: all of the path, and * takes slashes. */
    assert_true(portus_env_match("*.pt", "/scratch/a.pt"));
    assert_false(portus_env_match("a*", "/abc/x"));
    assert_true(portus_env_match("/scratch/*", "/scratch/a/b.pt"));
    assert_false(portus_env_match("/scratch/*", "/home/scratch/b.pt"));
    assert_true(portus_env_match("*/tmp/*", "/home/tmp/b.pt"));
    assert_false(portus_env_match("tmp/*", "/home/tmp/b.pt"));
    assert_true(portus_env_match("x:*.pt:y", "y"));
    assert_true(portus_env_match("::a", "a"));
    assert_false(portus_env_match("", "a"));
    assert_false(portus_env_match(":", ""));
    assert_true(portus_env_match("*", ""));
    assert_true(portus_env_match("**", "ab"));
    assert_true(portus_env_match("*", ".hidden"));
    assert_true(portus_env_match("a?c", "abc"));
    assert_false(portus_env_match("a?c", "ac"));
    assert_true(portus_env_match("a\\*c", "a*c"));
    assert_false(portus_env_match("a\\*c", "abc"));
    assert_true(portus_env_match("[a-c]x", "bx"));
    assert_false(portus_env_match("[!a-c]x", "bx"));
    assert_true(portus_env_match("[^a-c]x", "dx"));
    assert_true(portus_env_match("[]a]", "]"));
    assert_true(portus_env_match("[a-]", "-"));
    assert_true(portus_env_match("[x", "[x"));
    assert_true(portus_env_match("a\\", "a\\"));
    assert_true(portus_env_match("*\xff?", "a\xff\x01"));
    /* A hundred stars: no exponential time. */
    assert_false(
        portus_env_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

/* In the C locale and where the glob is well-formed, the same as fnmatch(3). */
static void test_match_as_fnmatch(void **state)
{
    static const char *const parts[] = {"a", "b", "*", "?", "[ab]", "[!a]", "[b-d]", "\\*", "."};
    static const char letters[] = "abcd.*";

    srandom(3);
    for (int round = 0; round < 200000; round++) {
        char glob[64] = "", text[16];
        int length = random() % 9;

        for (int i = random() % 7; i > 0; i--)
            strcat(glob, parts[random() % 9]);
        for (int i = 0; i < length; i++)
            text[i] = letters[random() % 6];
        text[length] = '\0';
        if (glob[0] != '\0' && portus_env_match(glob, text) != (fnmatch(glob, text, 0) == 0))
            fail_msg("%s against %s", glob, text);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_defaults_as_values),
        TEST(test_table),
        TEST(test_choices),
        TEST(test_sizes),
        TEST(test_texts),
        TEST(test_globs),
        TEST(test_empty_is_unset),
        TEST(test_wrong),
        TEST(test_too_long),
        TEST(test_quiet_when_only_errors_are_wanted),
        TEST(test_unknown_names),
        TEST(test_default_match),
        TEST(test_match),
        TEST(test_match_as_fnmatch),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
