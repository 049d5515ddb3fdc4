/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc_test.c -- CRC-32 by each kind, alone and with the copy, against known answers
 * and against the definition, bit by bit
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/copy.h"
#include "common/copy_kinds.h"

#define ROOM ((size_t)1 << 20)
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
    srandom(2);
    for (size_t i = 0; i < ROOM; i++)
        source[i] = random();
    return 0;
}

static uint32_t by_definition(uint32_t crc, const unsigned char *data, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static uint32_t crc_by(enum portus_copy_kind kind, uint32_t crc, const void *data, size_t length)
{
    return ~crc_sum_by(kind, ~crc, data, length);
}

/* Before anything else has filled the table. */
static void *sum_nine(void *result)
{
    *(uint32_t *)result = crc_by(PORTUS_COPY_PLAIN, 0, "123456789", 9);
    return NULL;
}

static void test_first_use_by_threads(void **state)
{
    pthread_t threads[4];
    uint32_t results[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sum_nine, &results[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(results[i], 0xCBF43926);
    }
}

static void test_known_answers(void **state)
{
    static const unsigned char zeros[32];
    unsigned char ones[32];

    memset(ones, 0xff, sizeof(ones));
    assert_int_equal(portus_crc32(0, "123456789", 9), 0xCBF43926);
    assert_int_equal(portus_crc32(0, "", 0), 0);
    assert_int_equal(portus_crc32(0, "a", 1), 0xE8B7BE43);
    assert_int_equal(portus_crc32(0, "abc", 3), 0x352441C2);
    assert_int_equal(portus_crc32(0, "The quick brown fox jumps over the lazy dog", 43),
                     0x414FA339);
    assert_int_equal(portus_crc32(0, zeros, 32), 0x190A55AD);
    assert_int_equal(portus_crc32(0, ones, 32), 0xFF6CAB0B);
    /* A million times "a": long enough for every way. */
    memset(target, 'a', 1000000);
    for (size_t i = 0; i < KINDS; i++)
        if (copy_sum_has(kinds[i]))
            assert_int_equal(crc_by(kinds[i], 0, target, 1000000), 0xDC25BFBC);
}

static void check(const unsigned char *data, size_t length, uint32_t before)
{
    uint32_t right = by_definition(before, data, length);

    assert_int_equal(portus_crc32(before, data, length), right);
    for (size_t i = 0; i < KINDS; i++)
        if (copy_sum_has(kinds[i]))
            assert_int_equal(crc_by(kinds[i], before, data, length), right);
}

static void test_lengths(void **state)
{
    for (size_t length = 0; length < 1100; length++) {
        check(source + length % 64, length, length * 0x9E3779B1u);
        check(source + ROOM - length, length, 0);
    }
}

static void test_random(void **state)
{
    for (int round = 0; round < 60; round++) {
        size_t length = random() % 40000, at = random() % 70;

        check(source + at, length, random());
    }
}

static void test_continued(void **state)
{
    uint32_t whole = by_definition(0, source, 300000);

    for (int round = 0; round < 20; round++) {
        uint32_t crc = 0;

        for (size_t done = 0, step; done < 300000; done += step) {
            step = random() % 3 == 0 ? random() % 100 : random() % 100000;
            if (step > 300000 - done)
                step = 300000 - done;
            if (random() % 2)
                crc = portus_crc32(crc, source + done, step);
            else
                crc = portus_copy_crc(target + done, source + done, step, crc);
        }
        assert_int_equal(crc, whole);
    }
}

static void check_copy(unsigned char *to, const unsigned char *from, size_t length, uint32_t before)
{
    uint32_t right = by_definition(before, from, length);

    for (int i = -1; i < (int)KINDS; i++) {
        uint32_t crc;

        memset(to - 64, 0x5a, length + 64);
        if (i < 0)
            crc = portus_copy_crc(to, from, length, before);
        else
            crc = copy_crc_by(kinds[i], to, from, length, before);
        assert_int_equal(crc, right);
        assert_memory_equal(to, from, length);
        for (int j = 1; j <= 64; j++)
            assert_int_equal(to[-j], 0x5a);
    }
}

static void test_copy_lengths(void **state)
{
    static const size_t lengths[] = {0,     1,     63,    64,    65,    4096,  16383,  16384,
                                     16385, 16447, 32767, 32768, 49152, 65535, 65536,  65537,
                                     65600, 81919, 81920, 98304, 98367, 99999, 163840, 200003};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        check_copy(target + 64, source, lengths[i], 0);
        check_copy(target + 64 + 1 + i % 63, source + i * 7 % 64, lengths[i], i * 0x85EBCA6Bu);
        /* Up to the last byte of both mappings. */
        check_copy(target + ROOM - lengths[i], source + ROOM - lengths[i], lengths[i], 0xFFFFFFFF);
    }
}

static void test_copy_random(void **state)
{
    for (int round = 0; round < 40; round++)
        check_copy(target + 64 + random() % 5000, source + random() % 5000, random() % 200000,
                   random());
}

/* Every bit counts, wherever in a group it stands. */
static void test_copy_single_bits(void **state)
{
    const size_t length = 5 * 16384;

    memset(target, 0, 2 * length);
    for (int round = 0; round < 100; round++) {
        size_t at = random() % length;

        target[at] = 1u << round % 8;
        assert_int_equal(portus_copy_crc(target + length, target, length, 0),
                         by_definition(0, target, length));
        target[at] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_use_by_threads),
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_continued),
        cmocka_unit_test(test_copy_lengths),
        cmocka_unit_test(test_copy_random),
        cmocka_unit_test(test_copy_single_bits),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
