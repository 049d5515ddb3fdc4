/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_test.c -- each kind of copy against memcpy: lengths, alignments, no byte beside
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/copy.h"

#define ROOM ((size_t)2 << 20)
#define GUARD 256
#define PAGE 4096

static const enum portus_copy_kind kinds[] = {PORTUS_COPY_BEST, PORTUS_COPY_PLAIN, PORTUS_COPY_AVX2,
                                              PORTUS_COPY_AVX512};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static unsigned char *source, *target; /* each ends at a page that may not be touched */

static unsigned char *room_before_nothing(void)
{
    unsigned char *room =
        mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(room != MAP_FAILED);
    assert_int_equal(mprotect(room + ROOM, PAGE, PROT_NONE), 0);
    return room;
}

static int setup(void **state)
{
    source = room_before_nothing();
    target = room_before_nothing();
    srandom(1);
    for (size_t i = 0; i < ROOM; i++)
        source[i] = random();
    return 0;
}

static void copy_any(int kind, unsigned char *to, const unsigned char *from, size_t length)
{
    if (kind < 0)
        portus_copy(to, from, length);
    else
        portus_copy_by(kind, to, from, length);
}

static void check(int kind, unsigned char *to, const unsigned char *from, size_t length)
{
    size_t after = target + ROOM - (to + length);

    if (after > GUARD)
        after = GUARD;
    memset(to - GUARD, 0xa5, GUARD + length + after);
    copy_any(kind, to, from, length);
    assert_memory_equal(to, from, length);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(to[-1 - (ptrdiff_t)i], 0xa5);
    for (size_t i = 0; i < after; i++)
        assert_int_equal(to[length + i], 0xa5);
}

static const size_t lengths[] = {0,     1,     63,    64,     65,     127,        4095,
                                 4096,  4097,  16383, 16384,  16385,  16447,      32768,
                                 49151, 65535, 65536, 65537,  81920,  (1u << 20), (1u << 20) + 13,
                                 98303, 20000, 50001, 131071, 262144, 300007};

static void each_length_and_alignment(int kind)
{
    static const unsigned shifts[] = {0, 1, 7, 8, 31, 32, 48, 63};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t t = 0; t < 8; t++) {
            unsigned char *last = target + ROOM - lengths[i];

            check(kind, target + PAGE + shifts[t], source + shifts[(t * 3 + i) % 8], lengths[i]);
            /* Up to the last byte of both mappings, and of the source alone. */
            check(kind, last, source + ROOM - lengths[i], lengths[i]);
            check(kind, target + PAGE + shifts[t], source + ROOM - lengths[i], lengths[i]);
        }
    }
    for (size_t length = 0; length < 300; length++)
        check(kind, target + PAGE + length % 67, source + length % 5, length);
}

static void test_kinds(void **state)
{
    for (size_t i = 0; i < KINDS; i++)
        if (portus_copy_has(kinds[i]))
            each_length_and_alignment(kinds[i]);
}

static void test_portus_copy(void **state)
{
    each_length_and_alignment(-1);
}

static void test_random(void **state)
{
    for (int round = 0; round < 400; round++) {
        size_t length = random() % (ROOM / 4);
        size_t to = GUARD + random() % (ROOM / 4), from = random() % (ROOM / 4);

        check(round % 5 == 0 ? -1 : (int)kinds[round % KINDS], target + to, source + from, length);
    }
}

static void test_has(void **state)
{
    assert_true(portus_copy_has(PORTUS_COPY_BEST));
    assert_true(portus_copy_has(PORTUS_COPY_PLAIN));
    assert_false(portus_copy_has(99));
}

/* A kind that this processor lacks, or none at all, still copies. */
static void test_unknown_kind(void **state)
{
    check(99, target + PAGE, source + 3, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_has),    cmocka_unit_test(test_unknown_kind),
        cmocka_unit_test(test_kinds),  cmocka_unit_test(test_portus_copy),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
