/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_buffers_test.c -- buffers that the lanes of a store share: nobody has all of them
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../src/transport/rdma_buffers.c"

const struct verbs_ops *rdma_ops;

/* As many as it gets. */
static unsigned take_all(const struct lane *lane, unsigned *got)
{
    unsigned count = 0, buffer;

    while ((buffer = rdma_buffer_take(lane, RDMA_FOR_READ)) != RDMA_BUFFERS)
        got[count++] = buffer;
    return count;
}

static void test_users(void **state)
{
    static struct lane lane[6];
    unsigned got[6][RDMA_BUFFERS], count[6];

    for (unsigned i = 0; i < 6; i++) {
        lane[i].owner = 100 + i;
        count[i] = take_all(&lane[i], got[i]);
        assert_true(count[i] > 0);
    }
    assert_true(count[0] >= 16);
    /* What the first gives back it does not get again as long as others have so little. */
    for (unsigned i = 0; i < count[0]; i++)
        rdma_buffer_give(RDMA_FOR_READ, got[0][i]);
    assert_true(take_all(&lane[5], got[5]) > 0);
    assert_true(take_all(&lane[0], got[0]) < count[0]);
    for (unsigned i = 0; i < RDMA_BUFFERS; i++)
        rdma_buffer_give(RDMA_FOR_READ, i);
}

/* Of one user: lanes that do not answer leave something for those that do, and for other users. */
static void test_lanes(void **state)
{
    static struct lane lane[64], other = {.owner = 2};
    unsigned got[RDMA_BUFFERS], served = 0, all = 0;

    for (unsigned i = 0; i < 64; i++) {
        unsigned n;

        lane[i].owner = 1;
        n = take_all(&lane[i], got);
        served += n > 0;
        all += n;
    }
    assert_true(served >= 4);
    assert_true(all <= RDMA_BUFFERS / 2);
    assert_true(take_all(&other, got) >= 8);
    assert_int_equal(rdma_buffer_take(&lane[0], RDMA_FOR_PUSH), 0);
    for (unsigned i = 0; i < RDMA_BUFFERS; i++)
        rdma_buffer_give(RDMA_FOR_READ, i);
    rdma_buffer_give(RDMA_FOR_READ, RDMA_BUFFERS); /* none */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_users), cmocka_unit_test(test_lanes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
