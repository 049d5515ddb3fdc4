/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_evict_test.c -- whose versions go when a file of one of two users wants room
 */
#include "pool_image.h"
#include "store/state.h"

#define SIZE (IMAGE_DATA + (8u << 20))

static uint64_t keep(struct pool *pool, uint32_t owner, uint32_t file, const char *path,
                     bool settled)
{
    static char bytes[1u << 20];
    struct pool_attributes attributes = {
        .path = path, .job = "job", .size = sizeof(bytes), .settled = settled};
    struct pool_key key = key_of(file);
    struct pool_draft *draft;
    uint64_t number;

    key.owner = owner;
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    return number;
}

static bool stands(const struct pool *pool, uint64_t number)
{
    struct pool_version version;

    return pool_get(pool, number, &version) == 0;
}

/* Both write into one directory, and one says that it is the other's job. */
static void test_shared_directory(void **state)
{
    struct pool_share one = {.owner = 1, .bytes = 3u << 20, .objects = UINT64_MAX};
    static struct store store = {.shared = true, .keep = 1};
    char *base = aligned_alloc(4096, SIZE);
    uint64_t own[2], other[2];

    assert_non_null(base);
    image_make(base, SIZE, 64);
    store.pool = image_open(base, SIZE);
    own[0] = keep(store.pool, 1, 1, "/shared/a", true);
    other[0] = keep(store.pool, 2, 2, "/shared/b", true);
    own[1] = keep(store.pool, 1, 3, "/shared/c", true);
    other[1] = keep(store.pool, 2, 4, "/shared/d", true);
    /* For a file elsewhere all of the user's of a directory go, and nobody else's. */
    assert_int_equal(store_room(&store, &one, "/else/e", "job", 2u << 20), 0);
    assert_false(stands(store.pool, own[0]));
    assert_false(stands(store.pool, own[1]));
    assert_true(stands(store.pool, other[0]));
    assert_true(stands(store.pool, other[1]));
    pool_close(store.pool);
    free(base);
}

/* What has settled of another's does not tell which of the user's a set still needs. */
static void test_settled_of_another(void **state)
{
    struct pool_share one = {.owner = 1, .bytes = 5u << 19, .objects = UINT64_MAX};
    static struct store store = {.shared = true, .keep = 1};
    char *base = aligned_alloc(4096, SIZE);
    uint64_t own[2];

    assert_non_null(base);
    image_make(base, SIZE, 64);
    store.pool = image_open(base, SIZE);
    own[0] = keep(store.pool, 1, 1, "/shared/a", false);
    own[1] = keep(store.pool, 1, 3, "/shared/c", true);
    keep(store.pool, 2, 2, "/shared/b", true);
    keep(store.pool, 2, 4, "/shared/d", true);
    assert_int_equal(store_room(&store, &one, "/shared/e", "job", 1u << 20), -ENOSPC);
    assert_true(stands(store.pool, own[0]));
    assert_true(stands(store.pool, own[1]));
    pool_close(store.pool);
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_directory),
        cmocka_unit_test(test_settled_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
