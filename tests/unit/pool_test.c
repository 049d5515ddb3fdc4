/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_test.c -- what a pool does with versions: names, pins, room, growth
 */
#include "pool_image.h"
#include "store/siphash.h"

#define SIZE (IMAGE_DATA + (8u << 20))

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

struct wanted {
    uint64_t number;
    struct pool_version version;
    bool found;
};

static int look_for(const struct pool_version *version, void *argument)
{
    struct wanted *wanted = argument;

    if (version->number != wanted->number)
        return 0;
    wanted->version = *version;
    wanted->found = true;
    return 1;
}

static bool has(const struct pool *pool, uint64_t number, struct pool_version *version)
{
    struct wanted wanted = {.number = number};

    pool_each(pool, look_for, &wanted);
    if (version != NULL)
        *version = wanted.version;
    return wanted.found;
}
/* ---- versions ---- */

static void test_attributes(void **state)
{
    struct pool_attributes attributes = {.path = "/d/ckpt.pt",
                                         .job = "train",
                                         .size = 3,
                                         .mtime = -5,
                                         .ctime = 77,
                                         .mode = 0640,
                                         .uid = 1000,
                                         .gid = 4294967294u,
                                         .settled = true};
    struct pool_key key = key_of(1);
    struct pool_version version;
    struct pool_draft *draft;
    struct pool *pool;
    uint64_t number;
    char bytes[3];

    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    key.handle_bytes = POOL_HANDLE_MAX;
    memset(key.handle, 'h', sizeof(key.handle));
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    for (int i = 0; i < 2; i++) {
        version = image_newest(pool);
        assert_memory_equal(&version.key, &key, sizeof(key));
        assert_string_equal(version.attributes.path, "/d/ckpt.pt");
        assert_string_equal(version.attributes.job, "train");
        assert_int_equal(version.attributes.mtime, -5);
        assert_int_equal(version.attributes.ctime, 77);
        assert_int_equal(version.attributes.mode, 0640);
        assert_int_equal(version.attributes.uid, 1000);
        assert_int_equal(version.attributes.gid, 4294967294u);
        assert_true(version.attributes.settled);
        assert_int_equal(version.stored, 1024);
        assert_int_equal(pool_read(pool, &version, 0, bytes, 3), 0);
        assert_memory_equal(bytes, "\0\0\0", 3);
        pool_close(pool);
        pool = image_open(base, SIZE);
    }
    attributes.path = "relative";
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), -EINVAL);
    key.handle_bytes = POOL_HANDLE_MAX + 1;
    assert_int_equal(pool_begin(pool, &key, &draft), -EINVAL);
    pool_close(pool);
}

/* A number is never given out twice, not even that of a version that is gone. */
static void test_numbers(void **state)
{
    struct pool_version version;
    struct pool *pool;
    uint64_t number, last = 0;

    image_make(base, SIZE, 4);
    for (int i = 0; i < 20; i++) {
        pool = image_open(base, SIZE);
        assert_int_equal(image_commit(pool, i, "/n", i + 1, 100, &number), 0);
        assert_true(number > last);
        last = number;
        version = image_newest(pool);
        assert_int_equal(pool_remove(pool, &version), 0);
        assert_int_equal(pool_remove(pool, &version), -ESTALE);
        pool_close(pool);
    }
}

static void test_rename(void **state)
{
    struct pool_key key = key_of(1), other = key_of(2);
    struct pool_version version;
    struct contents contents;
    struct pool *pool;
    uint64_t first, second, number;

    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    assert_int_equal(image_commit(pool, 1, "/old", 1, 5000, &first), 0);
    assert_int_equal(image_commit(pool, 1, "/tmp", 2, 6000, &second), 0);
    version = image_newest(pool);
    assert_int_equal(pool_pin(pool, &version, true), 0);
    assert_int_equal(pool_rename(pool, &other, "/new", POOL_SETTLED_AS_IT_WAS, &number), -ENOENT);
    assert_int_equal(pool_rename(pool, &key, "/new", POOL_SETTLED_AS_IT_WAS, &number), 0);
    assert_true(number > second);
    for (int i = 0; i < 2; i++) {
        contents = contents_of(pool);
        assert_int_equal(contents.count, 2);
        check_free(pool, &contents);
        assert_true(has(pool, first, NULL));
        assert_false(has(pool, second, NULL));
        assert_true(has(pool, number, &version));
        assert_string_equal(version.attributes.path, "/new");
        assert_int_equal(version.attributes.mtime, 2);
        assert_true(version.pinned);
        pool_close(pool);
        pool = image_open(base, SIZE);
    }
    pool_close(pool);
}

static void test_pin(void **state)
{
    struct pool_version version;
    struct pool *pool;
    uint64_t number;

    image_make(base, SIZE, 1);
    pool = image_open(base, SIZE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(image_commit(pool, 1, "/p", 1, 100, &number), 0);
        version = image_newest(pool);
        assert_false(version.pinned); /* not by what its slot held before */
        assert_int_equal(pool_pin(pool, &version, true), 0);
        pool_close(pool);
        pool = image_open(base, SIZE);
        version = image_newest(pool);
        assert_true(version.pinned);
        assert_int_equal(pool_remove(pool, &version), 0);
    }
    pool_close(pool);
}

/* ---- room ---- */

static uint64_t commit(struct pool *pool, uint32_t file, const char *path, bool settled)
{
    struct pool_attributes attributes = {
        .path = path, .job = "job", .size = 1000, .settled = settled};
    struct pool_key key = key_of(file);
    struct pool_draft *draft;
    char bytes[1000] = "";
    uint64_t number;

    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    return number;
}

static void test_room(void **state)
{
    struct pool_version version;
    struct pool *pool;
    uint64_t a[4], b, tmp[3];

    image_make(base, SIZE, 64);
    pool = image_open(base, SIZE);
    /* One object, four versions. */
    for (int i = 0; i < 4; i++)
        a[i] = commit(pool, 1, "/x/a", false);
    b = commit(pool, 2, "/x/b", false);
    assert_int_equal(pool_make_room(pool, 1, 1), pool->data.free * 1024); /* enough is free */
    assert_true(has(pool, a[0], &version));
    assert_int_equal(pool_pin(pool, &version, true), 0);
    assert_true(pool_make_room(pool, UINT64_MAX, 2) > 0);
    assert_true(has(pool, a[0], NULL));
    assert_false(has(pool, a[1], NULL));
    assert_true(has(pool, a[2], NULL));
    assert_true(has(pool, a[3], NULL));
    assert_true(has(pool, b, NULL));
    assert_true(pool_make_room(pool, UINT64_MAX, 0) > 0); /* 0: one stays, too */
    assert_false(has(pool, a[2], NULL));
    assert_true(has(pool, a[3], NULL));

    /* Files that are renamed over one another. */
    for (int i = 0; i < 3; i++) {
        struct pool_key key = key_of(10 + i);

        commit(pool, 10 + i, "/y/tmp", false);
        assert_int_equal(pool_rename(pool, &key, "/y/final", POOL_SETTLED_AS_IT_WAS, &tmp[i]), 0);
    }
    assert_true(pool_make_room(pool, UINT64_MAX, 2) > 0);
    assert_false(has(pool, tmp[0], NULL));
    assert_true(has(pool, tmp[1], NULL));
    assert_true(has(pool, tmp[2], NULL));

    /* What is damaged takes nobody's place, also after another opening. */
    for (int i = 0; i < 3; i++)
        a[i] = commit(pool, 20, "/z/a", false);
    assert_int_equal(pool_flag(pool, pool_find(pool, a[2]), PORTUS_POOL_DAMAGED, true), 0);
    pool_close(pool);
    pool = image_open(base, SIZE);
    assert_true(pool_make_room(pool, UINT64_MAX, 1) > 0);
    assert_false(has(pool, a[0], NULL));
    assert_true(has(pool, a[1], NULL));
    assert_true(has(pool, a[2], &version) && version.damaged);
    assert_int_equal(pool_flag(pool, pool_find(pool, a[2]), PORTUS_POOL_DAMAGED, false), 0);
    pool_close(pool);
    pool = image_open(base, SIZE);
    assert_true(pool_make_room(pool, UINT64_MAX, 1) > 0);
    assert_false(has(pool, a[1], NULL));
    pool_close(pool);
}

/* Slots run out before bytes do. */
static void test_room_slots(void **state)
{
    struct pool_key key = key_of(1);
    struct pool *pool;
    uint64_t number;

    image_make(base, SIZE, 4);
    pool = image_open(base, SIZE);
    for (int i = 0; i < 20; i++) {
        assert_true(pool_make_room(pool, 2048, 1) >= 2048);
        commit(pool, 1, "/x/tmp", false);
        assert_int_equal(pool_rename(pool, &key, "/x/a", POOL_SETTLED_AS_IT_WAS, &number), 0);
    }
    pool_close(pool);
}

/* What the last settled state of a directory consists of stays. */
static void test_room_settled(void **state)
{
    struct pool *pool;
    uint64_t a0, a1, a2, b1, b2, c1, c2;

    image_make(base, SIZE, 64);
    pool = image_open(base, SIZE);
    a0 = commit(pool, 1, "/s/a", false);
    a1 = commit(pool, 1, "/s/a", false);
    b1 = commit(pool, 2, "/s/b", true);
    c1 = commit(pool, 3, "/other/c", false);
    a2 = commit(pool, 1, "/s/a", false); /* the next save has begun */
    c2 = commit(pool, 3, "/other/c", false);
    pool_make_room(pool, UINT64_MAX, 1);
    assert_false(has(pool, a0, NULL));
    assert_true(has(pool, a1, NULL));
    assert_true(has(pool, b1, NULL));
    assert_true(has(pool, a2, NULL));
    assert_false(has(pool, c1, NULL));
    assert_true(has(pool, c2, NULL));
    b2 = commit(pool, 2, "/s/b", true); /* and is whole */
    pool_make_room(pool, UINT64_MAX, 1);
    assert_false(has(pool, a1, NULL));
    assert_false(has(pool, b1, NULL));
    assert_true(has(pool, a2, NULL));
    assert_true(has(pool, b2, NULL));
    pool_close(pool);
}

/* A rename keeps a directory settled only if it is all that is new. */
static void test_rename_settled(void **state)
{
    struct pool_key key = key_of(1);
    struct pool *pool;
    uint64_t number;

    image_make(base, SIZE, 64);
    pool = image_open(base, SIZE);
    commit(pool, 1, "/t/a.tmp", true);
    assert_int_equal(pool_rename(pool, &key, "/t/a", POOL_SETTLED_AS_IT_WAS, &number), 0);
    assert_true(image_newest(pool).attributes.settled);
    commit(pool, 2, "/t/b", false);
    assert_int_equal(pool_rename(pool, &key, "/t/c", POOL_SETTLED_AS_IT_WAS, &number), 0);
    assert_false(image_newest(pool).attributes.settled);
    pool_close(pool);
}

/* ---- growth and others ---- */

static void test_grow(void **state)
{
    struct pool_state look;
    struct contents before, after;
    struct pool *pool;
    struct map *map;
    uint64_t number;

    image_make(base, SIZE, 32);
    assert_int_equal(map_memory(&map, base, SIZE, 2 * SIZE, &image_backend, NULL), 0);
    assert_int_equal(pool_open_map(&pool, map, true), 0);
    assert_int_equal(image_commit(pool, 1, "/g", 1, 3000, &number), 0);
    before = contents_of(pool);
    assert_int_equal(pool_set_size(pool, SIZE), 0);
    assert_int_equal(pool_set_size(pool, 1), -EBUSY);
    assert_int_equal(pool_set_size(pool, 0), -EBUSY);
    assert_int_equal(pool_set_size(pool, 4ull * SIZE), -EFBIG);
    assert_int_equal(pool_set_size(pool, 2 * SIZE - 1), 0);
    pool_look(pool, &look);
    assert_int_equal(look.size, (2 * SIZE - 1) & -4096u);
    pool_close(pool);
    pool = image_open(base, 2 * SIZE);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    check_free(pool, &after);
    pool_look(pool, &look);
    assert_int_equal(look.repaired, 0);
    pool_close(pool);
    /* What is cut is refused. */
    assert_int_equal(image_open_by(&pool, base, SIZE, true, &image_backend, NULL), -EUCLEAN);
}

/* The end comes down to the last unit that is taken, and no further. */
static void test_shrink(void **state)
{
    struct contents before, after;
    struct pool_draft *draft;
    struct pool_state look;
    struct pool *pool;
    uint64_t number, seed = 21;
    struct pool_key key = key_of(3);

    for (int i = 0; i < 200; i++) {
        uint64_t last, size;

        image_make(base, SIZE, 32);
        pool = image_open(base, SIZE);
        for (int j = 0; j < 4; j++) {
            pool->data.next = below(&seed, pool->data.units);
            assert_int_equal(image_commit(pool, j, "/s", j, below(&seed, 9000), &number), 0);
        }
        before = contents_of(pool);
        last = pool->data.units;
        while (last > 0 && !(pool->data.bits[(last - 1) / 64] >> (last - 1) % 64 & 1))
            last--;
        last = pool->super.data + last * PORTUS_POOL_UNIT;
        size = IMAGE_DATA + below(&seed, SIZE - IMAGE_DATA) + 1;
        if (size <= SIZE - PORTUS_POOL_PAGE) {
            uint64_t pages = (size + 4095) & -4096ull;
            bool fits = pages >= last && pages >= IMAGE_DATA + (64 << 10);

            assert_int_equal(pool_set_size(pool, size), fits ? 0 : -EBUSY);
            pool_look(pool, &look);
            assert_int_equal(look.size, fits ? pages : SIZE);
        }
        after = contents_of(pool);
        assert_true(same_contents(&before, &after));
        check_free(pool, &after);
        /* It is used as any other, to the last unit, and made larger again. */
        while (image_commit(pool, 9, "/t", 9, MAX_FILE, &number) == 0)
            ;
        pool_look(pool, &look);
        assert_true(look.slots_free == 0 || look.free < MAX_FILE + 4096);
        after = contents_of(pool);
        assert_int_equal(after.error, 0);
        check_free(pool, &after);
        assert_int_equal(pool_set_size(pool, SIZE), 0);
        check_free(pool, &after);
        pool_close(pool);
        pool = image_open(base, SIZE);
        before = contents_of(pool);
        assert_true(same_contents(&before, &after));
        check_free(pool, &after);
        pool_close(pool);
    }
    /* A draft's bytes are in the way, too. */
    image_make(base, SIZE, 32);
    pool = image_open(base, SIZE);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    pool->data.next = pool->data.units - 1024;
    assert_int_equal(pool_write(draft, 0, "x", 1), 0);
    assert_int_equal(pool_set_size(pool, SIZE - PORTUS_POOL_PAGE), -EBUSY);
    pool_drop(draft);
    assert_int_equal(pool_set_size(pool, SIZE - PORTUS_POOL_PAGE), 0);
    pool_close(pool);
}

/* No flipped bit makes a valid word, or a free one. */
static void test_word(void **state)
{
    uint64_t seed = 3;

    for (int i = 0; i < 2000; i++) {
        uint64_t word, number = 1 + below(&seed, (1ull << 48) - 1);
        uint8_t uuid[16];
        uint32_t slot = random64(&seed);

        fill_bytes((char *)uuid, 16, random64(&seed) | 1);
        if (i < 200)
            number = i + 1;
        word = slot_word(uuid, slot, number);
        assert_int_equal(word >> 16, number);
        for (int bit = 0; bit < 64; bit++) {
            uint64_t flipped = word ^ 1ull << bit;

            assert_int_not_equal(flipped, 0);
            if (flipped >> 16 != 0)
                assert_int_not_equal(flipped, slot_word(uuid, slot, flipped >> 16));
        }
    }
}

static void test_siphash(void **state)
{
    /* By the definition's authors: 2-4; this is 1-3, as in Rust's std: of nothing, of one byte. */
    const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

    assert_true(siphash(key, bytes, 0) == 0xabac0158050fc4dcu);
    assert_true(siphash(key, bytes, 1) == 0xc9f49bf37d57ca93u);
    assert_int_not_equal(siphash(key, bytes, 8), siphash(key, bytes, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_rename),       cmocka_unit_test(test_pin),
        cmocka_unit_test(test_room),         cmocka_unit_test(test_room_slots),
        cmocka_unit_test(test_room_settled), cmocka_unit_test(test_rename_settled),
        cmocka_unit_test(test_grow),         cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_word),         cmocka_unit_test(test_siphash),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
