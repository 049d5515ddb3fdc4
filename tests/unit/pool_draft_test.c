/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_draft_test.c -- drafts of a pool, against a model: written anyhow, in what room there is
 */
#include "pool_image.h"

#define SIZE (IMAGE_DATA + (8u << 20))
#define FILE_SIZE (5u << 20)

static char *base;

static int setup(void **state)
{
    base = aligned_alloc(4096, 2 * SIZE);
    assert_non_null(base);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    return 0;
}

static int teardown(void **state)
{
    free(base);
    return 0;
}
/* Reads all, and parts, and compares. */
static void check_bytes(const struct pool *pool, const struct pool_version *version,
                        const char *model, uint64_t size, uint64_t *seed)
{
    char *bytes = malloc(FILE_SIZE + 1);

    assert_int_equal(version->attributes.size, size);
    assert_int_equal(pool_verify(pool, version), 0);
    assert_int_equal(pool_read(pool, version, 0, bytes, size), 0);
    assert_memory_equal(bytes, model, size);
    for (int i = 0; i < 20 && size > 0; i++) {
        uint64_t offset = below(seed, size), length = below(seed, size - offset + 1);

        if (i % 2 == 0 && length > 5000)
            length = below(seed, 5000);
        assert_int_equal(pool_read(pool, version, offset, bytes, length), 0);
        assert_memory_equal(bytes, model + offset, length);
    }
    assert_int_equal(pool_read(pool, version, size, bytes, 1), -EINVAL);
    assert_int_equal(pool_read(pool, version, UINT64_MAX, bytes, 2), -EINVAL);
    free(bytes);
}

static uint64_t some_length(uint64_t *seed)
{
    static const uint64_t most[] = {8, 100, 5000, 70000, 1200000};

    return 1 + below(seed, most[below(seed, 5)]);
}

/* As pool_write, by a device: perhaps into more room than one, which is given back. */
static void write_by_device(struct pool *pool, struct pool_draft *draft, uint64_t offset,
                            const char *bytes, uint64_t length)
{
    struct pool_landing *landing, *other = NULL;
    int error = pool_land(pool, 0, length, &landing);

    if (error == -ENOSPC) { /* what drafts have taken ahead only pool_write takes back */
        assert_int_equal(pool_write(draft, offset, bytes, length), 0);
        return;
    }
    assert_int_equal(error, 0);
    if (pool_land(pool, 0, 1, &other) == 0)
        memset(pool_landing_at(other), 'x', 1);
    memcpy(pool_landing_at(landing), bytes, length);
    assert_int_equal(pool_landed(landing, draft, offset), 0);
    pool_land_drop(other);
}

/* Random writes and cuts, then the version must be what a file would be. */
static void one_draft(struct pool *pool, uint64_t *seed, bool devices)
{
    char *model = calloc(1, FILE_SIZE), *bytes = malloc(FILE_SIZE);
    struct pool_key key = key_of(7);
    struct pool_attributes attributes = {.path = "/m", .job = ""};
    struct pool_version version;
    struct pool_draft *draft;
    uint64_t size = 0, at = 0, number;
    unsigned kind = below(seed, 4), writes = 1 + below(seed, 40);

    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    for (unsigned i = 0; i < writes; i++) {
        uint64_t length = some_length(seed), offset = at;

        if (kind == 1 || (kind > 1 && below(seed, 4) == 0))
            offset = below(seed, FILE_SIZE);
        if (kind == 3)
            offset = FILE_SIZE - 1 - i * 4000; /* backwards */
        length = length < FILE_SIZE - offset ? length : FILE_SIZE - offset;
        if (length == 0)
            continue;
        fill_bytes(bytes, length, random64(seed) | 1);
        if (devices && length <= PORTUS_POOL_EXTENT && below(seed, 2) == 0)
            write_by_device(pool, draft, offset, bytes, length);
        else
            assert_int_equal(pool_write(draft, offset, bytes, length), 0);
        memcpy(model + offset, bytes, length);
        at = offset + length;
        size = at > size ? at : size;
        if (below(seed, 16) == 0) {
            size = below(seed, FILE_SIZE);
            assert_int_equal(pool_resize(draft, size), 0);
            memset(model + size, 0, FILE_SIZE - size);
        }
    }
    if (below(seed, 4) == 0) {
        size = below(seed, FILE_SIZE);
        memset(model + size, 0, FILE_SIZE - size);
    }
    attributes.size = size;
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    version = image_newest(pool);
    assert_int_equal(version.number, number);
    check_bytes(pool, &version, model, size, seed);
    assert_int_equal(pool_remove(pool, &version), 0);
    assert_int_equal(pool_read(pool, &version, 0, bytes, 0), -ESTALE);
    free(model);
    free(bytes);
}

static void test_drafts(void **state)
{
    uint64_t seed = 1;
    struct pool_state look;
    struct pool *pool;

    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    for (int i = 0; i < 150; i++)
        one_draft(pool, &seed, i % 2 == 1);
    pool_look(pool, &look);
    assert_int_equal(look.free, 8u << 20);
    assert_int_equal(look.slots_free, 32);
    pool_close(pool);
}

/* What a device may still write to is nobody else's, whatever becomes of who wanted it. */
static void test_landings(void **state)
{
    static char bytes[1u << 20];
    struct pool_share share = {.owner = 5, .bytes = UINT64_MAX, .objects = UINT64_MAX};
    struct pool_attributes attributes = {.path = "/l", .size = 2u << 20};
    struct pool_key key = key_of(1);
    struct pool_landing *landing, *late, *more;
    struct pool_version version;
    struct pool_usage usage;
    struct pool_draft *draft;
    struct pool_state look;
    struct pool *pool;
    uint64_t number, count = 0;

    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    assert_int_equal(pool_land(pool, 5, 0, &landing), -EINVAL);
    assert_int_equal(pool_land(pool, 5, (1u << 20) + 1, &landing), -EINVAL);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_land(pool, 5, 1u << 20, &late), 0);
    assert_int_equal(pool_land(pool, 5, 1u << 20, &landing), 0);
    pool_use(pool, &share, &usage);
    assert_int_equal(usage.bytes, 2u << 20);
    memset(pool_landing_at(landing), 'a', 1u << 20);
    assert_int_equal(pool_landed(landing, draft, 1u << 20), 0);
    memset(bytes, 'b', sizeof(bytes));
    assert_int_equal(pool_write(draft, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);

    /* All the rest is another's; then the late one comes, of a draft that is gone. */
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pool_write(draft, (uint64_t)i << 20, bytes, sizeof(bytes)), 0);
    while (pool_land(pool, 5, 4096, &more) == 0)
        assert_int_equal(pool_landed(more, draft, (4u << 20) + 4096 * count++), 0);
    memset(pool_landing_at(late), 'z', 1u << 20);
    attributes.size = 4u << 20;
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    version = image_newest(pool);
    assert_int_equal(pool_verify(pool, &version), 0);
    assert_int_equal(pool_remove(pool, &version), 0);
    version = image_newest(pool);
    assert_int_equal(pool_verify(pool, &version), 0);
    assert_int_equal(pool_read(pool, &version, 1u << 20, bytes, sizeof(bytes)), 0);
    assert_true(bytes[0] == 'a' && bytes[sizeof(bytes) - 1] == 'a');
    assert_int_equal(pool_remove(pool, &version), 0);
    pool_look(pool, &look);
    assert_int_equal(look.free, 7u << 20);
    pool_land_drop(late);
    pool_look(pool, &look);
    assert_int_equal(look.free, 8u << 20);

    /* Over bytes that the draft has, and beyond what files may have. */
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, "hello", 5), 0);
    assert_int_equal(pool_land(pool, 5, 2, &landing), 0);
    memcpy(pool_landing_at(landing), "LL", 2);
    assert_int_equal(pool_landed(landing, draft, 2), 0);
    assert_int_equal(pool_land(pool, 5, 2, &landing), 0);
    assert_int_equal(pool_landed(landing, draft, INT64_MAX), -EFBIG);
    attributes.size = 5;
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    version = image_newest(pool);
    assert_int_equal(pool_read(pool, &version, 0, bytes, 5), 0);
    assert_memory_equal(bytes, "heLLo", 5);
    pool_close(pool);
}

/* In small pieces of free space extents are short. */
static void test_fragmented(void **state)
{
    char *bytes = malloc(FILE_SIZE);
    struct pool_key key = key_of(1);
    struct pool_attributes attributes = {.path = "/f", .size = 2u << 20};
    struct pool_version version;
    struct pool_draft *draft;
    struct pool *pool;
    uint64_t seed = 9, number, first, free_before;

    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    while (space_take_all(&pool->data, 1, &first))
        ;
    for (uint64_t unit = 0; unit < pool->data.units; unit += 3)
        space_give(&pool->data, unit, 1);
    fill_bytes(bytes, attributes.size, 5);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    for (uint64_t at = 0; at < attributes.size; at += 100000) {
        uint64_t n = attributes.size - at < 100000 ? attributes.size - at : 100000;

        assert_int_equal(pool_write(draft, at, bytes + at, n), 0);
    }
    free_before = pool->data.free;
    assert_int_equal(pool_write(draft, 2u << 20, bytes, 1u << 20), -ENOSPC);
    assert_int_equal(pool->data.free, free_before);
    /* Its body, of 2048 extents, finds no run. */
    assert_int_equal(pool_commit(draft, &attributes, &number), -ENOSPC);
    pool_close(pool);

    /* With room for the body. */
    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    while (space_take_all(&pool->data, 1, &first))
        ;
    for (uint64_t unit = 0; unit < pool->data.units - 200; unit += 3)
        space_give(&pool->data, unit, 1);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, attributes.size), 0);
    space_give(&pool->data, pool->data.units - 200, 200);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    version = image_newest(pool);
    check_bytes(pool, &version, bytes, attributes.size, &seed);
    pool_close(pool);
    pool = image_open(base, SIZE); /* and again from its memory alone */
    version = image_newest(pool);
    check_bytes(pool, &version, bytes, attributes.size, &seed);
    assert_int_equal(pool->data.free, pool->data.units - version.stored / PORTUS_POOL_UNIT);
    pool_close(pool);
    free(bytes);
}

/* What a draft has taken ahead is no reason to refuse another. */
static void test_ahead(void **state)
{
    struct pool_attributes attributes = {.path = "/a", .size = 11};
    struct pool_draft *drafts[30];
    struct contents contents;
    struct pool *pool;
    uint64_t number;

    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    for (int i = 0; i < 30; i++) {
        struct pool_key key = key_of(i);

        assert_int_equal(pool_begin(pool, &key, &drafts[i]), 0);
        assert_int_equal(pool_write(drafts[i], 0, "hello", 5), 0);
    }
    for (int i = 0; i < 30; i++) {
        assert_int_equal(pool_write(drafts[i], 5, " world", 6), 0);
        assert_int_equal(pool_commit(drafts[i], &attributes, &number), 0);
    }
    contents = contents_of(pool);
    assert_int_equal(contents.count, 30);
    assert_int_equal(contents.error, 0);
    check_free(pool, &contents);
    pool_close(pool);
}

static void test_full(void **state)
{
    char *bytes = calloc(1, FILE_SIZE);
    struct pool_key key = key_of(1);
    struct pool_draft *draft;
    struct pool *pool;
    uint64_t number;

    image_make(base, SIZE, 2);
    pool = image_open(base, SIZE);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, FILE_SIZE), 0);
    assert_int_equal(pool_write(draft, FILE_SIZE, bytes, FILE_SIZE), -ENOSPC);
    pool_drop(draft);
    assert_int_equal(pool->data.free, pool->data.units);
    assert_int_equal(image_commit(pool, 1, "/a", 1, 10, &number), 0);
    assert_int_equal(image_commit(pool, 2, "/b", 2, 10, &number), 0);
    assert_int_equal(image_commit(pool, 3, "/c", 3, 10, &number), -ENOSPC); /* no slot */
    assert_int_equal(number, 2);
    pool_close(pool);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts),     cmocka_unit_test(test_landings),
        cmocka_unit_test(test_fragmented), cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
