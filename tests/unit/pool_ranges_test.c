/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_ranges_test.c -- the set of ranges, against a bit for each byte */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/ranges.h"

#define BYTES 300

static void random_additions(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        struct ranges ranges = {0};
        bool model[BYTES] = {false};

        for (int i = rand() % 40; i >= 0; i--) {
            unsigned from = rand() % BYTES, to = from + rand() % (rand() % 4 ? 12 : BYTES - from + 1);

            to = to < BYTES ? to : BYTES;
            assert_int_equal(ranges_add(&ranges, from, to), 0);
            memset(model + from, true, to - from);
        }
        for (size_t i = 1; i < ranges.count; i++)
            assert_true(ranges.range[i - 1].to < ranges.range[i].from);
        for (unsigned at = 0; at <= BYTES; at++) {
            struct range gap;
            unsigned from = at, to;

            while (from < BYTES && model[from])
                from++;
            for (to = from; to < BYTES && !model[to]; to++)
                ;
            assert_int_equal(ranges_gap(&ranges, at, BYTES, &gap), from < BYTES);
            if (from < BYTES) {
                assert_int_equal(gap.from, from);
                assert_int_equal(gap.to, to);
            }
        }
        ranges_free(&ranges);
    }
}

static void forward_is_one(void **state)
{
    struct ranges ranges = {0};

    (void)state;
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(ranges_add(&ranges, i * 4096, (i + 1) * 4096), 0);
    assert_int_equal(ranges.count, 1);
    ranges_free(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_additions),
        cmocka_unit_test(forward_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
