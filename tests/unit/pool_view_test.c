/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_view_test.c -- a pool of two users: what one sees, takes and can lose
 */
#include "pool_image.h"
#include "store/view.h"

#define SIZE (IMAGE_DATA + (8u << 20))

static char *base, *seen;

static int setup(void **state)
{
    base = aligned_alloc(4096, SIZE);
    seen = calloc(1, SIZE);
    assert_non_null(base);
    assert_non_null(seen);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    return 0;
}

static int teardown(void **state)
{
    free(base);
    free(seen);
    return 0;
}

/* length bytes of one value, so that another's are found wherever they are. */
static uint64_t keep(struct pool *pool, uint32_t owner, uint32_t file, const char *path, char byte,
                     size_t length)
{
    struct pool_attributes attributes = {.path = path, .job = "job", .size = length};
    struct pool_key key = key_of(file);
    struct pool_draft *draft;
    uint64_t number;
    char *bytes = malloc(length);

    key.owner = owner;
    memset(bytes, byte, length);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, length), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
    free(bytes);
    return number;
}

static struct pool_share share_of(uint32_t owner)
{
    return (struct pool_share){.owner = owner, .bytes = UINT64_MAX, .objects = UINT64_MAX};
}

static bool stands(const struct pool *pool, uint64_t number)
{
    struct pool_version version;

    return pool_get(pool, number, &version) == 0;
}

/* The same file of two users is two objects: a rename, an eviction of one leaves the other. */
static void test_owners(void **state)
{
    struct pool_share one = share_of(1), two = share_of(2);
    struct pool_key key = key_of(7);
    struct pool_version version;
    struct pool_usage usage;
    struct pool *pool;
    struct pool_draft *draft;
    uint64_t a[3], b[3], renamed, before;

    image_make(base, SIZE, 64);
    pool = image_open(base, SIZE);
    for (int i = 0; i < 3; i++) {
        a[i] = keep(pool, 1, 7, "/x/file", 'a', 100000);
        b[i] = keep(pool, 2, 7, "/x/file", 'b', 100000);
    }
    pool_use(pool, &one, &usage);
    assert_int_equal(usage.objects, 3);
    assert_true(usage.bytes >= 300000 && usage.bytes < 310000);
    assert_true(pool_make_room_of(pool, &one, UINT64_MAX, 1) > 0);
    assert_false(stands(pool, a[0]) || stands(pool, a[1]));
    assert_true(stands(pool, a[2]) && stands(pool, b[0]) && stands(pool, b[1]));
    key.owner = 2;
    assert_int_equal(pool_rename(pool, &key, "/y/file", POOL_UNSETTLED, &renamed), 0);
    assert_false(stands(pool, b[2]));
    assert_int_equal(pool_get(pool, renamed, &version), 0);
    assert_int_equal(version.key.owner, 2);
    assert_int_equal(pool_get(pool, a[2], &version), 0);
    assert_string_equal(version.attributes.path, "/x/file");
    assert_int_equal(version.key.owner, 1);

    /* Limits: of bytes, of objects. */
    two.bytes = 350000;
    pool_use(pool, &two, &usage);
    assert_int_equal(usage.left, 350000 - usage.bytes);
    two.objects = 3;
    pool_use(pool, &two, &usage);
    assert_int_equal(usage.left, 0);
    assert_true(pool_make_room_of(pool, &two, 40000, 1) >= 40000);
    assert_false(stands(pool, b[0]));
    assert_true(stands(pool, renamed) && stands(pool, a[2]));

    /* What a draft is going to take counts at once, and no longer than it is one. */
    two.objects = UINT64_MAX;
    pool_use(pool, &two, &usage);
    before = usage.bytes;
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    pool_expect(draft, 3000000);
    pool_use(pool, &two, &usage);
    assert_int_equal(usage.bytes, before + pool_needs(3000000));
    assert_int_equal(pool_write(draft, 0, base, 60000), 0);
    pool_use(pool, &two, &usage);
    assert_int_equal(usage.bytes, before + pool_needs(3000000));
    pool_use(pool, &one, &usage);
    assert_true(usage.bytes < 110000);
    pool_expect(draft, 0);
    pool_use(pool, &two, &usage);
    assert_int_equal(usage.bytes, before + PORTUS_POOL_EXTENT); /* it has taken ahead */
    pool_drop(draft);
    pool_use(pool, &two, &usage);
    assert_int_equal(usage.bytes, before);
    pool_close(pool);
}

static int fetch(struct map *map, uint64_t offset, void *to, size_t length)
{
    return view_read(map->self, offset, to, length);
}

static struct pool *open_view(struct view *view)
{
    struct pool *pool;
    struct map *map;

    assert_int_equal(view_read(view, 0, seen, view_head(view)), 0);
    assert_int_equal(map_memory(&map, seen, SIZE, SIZE, NULL, view), 0);
    map->writable = false;
    map->local = view_head(view);
    map->fetch = fetch;
    assert_int_equal(pool_open_map(&pool, map, false), 0);
    return pool;
}

static int count(const struct pool_version *version, void *argument)
{
    ++*(int *)argument;
    return 0;
}

static void test_view(void **state)
{
    struct pool_share one = share_of(1), all = {.everyone = true};
    struct pool_version version;
    struct pool *pool, *part;
    struct view *view;
    uint64_t mine, other, holes;
    static char bytes[3000000], whole[4 << 20], piece[4 << 20];
    uint64_t end;
    int versions = 0;

    image_make(base, SIZE, 64);
    pool = image_open(base, SIZE);
    keep(pool, 2, 1, "/secret/one", 'S', 1500);
    mine = keep(pool, 1, 2, "/mine/one", 'm', 2500000);
    other = keep(pool, 2, 3, "/secret/two", 'S', 2500000);
    holes = keep(pool, 1, 4, "/mine/two", 'n', 10);
    assert_int_equal(pool_get(pool, mine, &version), 0);
    assert_int_equal(pool_pin(pool, &version, true), 0);

    assert_int_equal(view_open(&view, pool, &one), 0);
    part = open_view(view);
    pool_each(part, count, &versions);
    assert_int_equal(versions, 2);
    assert_false(stands(part, other));
    assert_int_equal(pool_get(part, mine, &version), 0);
    assert_true(version.pinned);
    assert_string_equal(version.attributes.path, "/mine/one");
    assert_int_equal(pool_read(part, &version, 0, bytes, 2500000), 0);
    for (size_t i = 0; i < 2500000; i++)
        assert_int_equal(bytes[i], 'm');
    assert_int_equal(pool_read(part, &version, 1048570, bytes, 20), 0);
    assert_int_equal(pool_verify(part, &version), 0);
    assert_int_equal(pool_get(part, holes, &version), 0);
    assert_int_equal(pool_verify(part, &version), 0);

    /* Not a byte of the other's in all of it, in whatever pieces it is read. */
    for (end = 0; view_read(view, end, piece, 1) == 0; end += 1024)
        ;
    memset(whole, 0, sizeof(whole));
    for (uint64_t at = PORTUS_POOL_SECOND; at < end; at += 65536) {
        size_t length = end - at < 65536 ? end - at : 65536;

        assert_true(at - PORTUS_POOL_SECOND + length <= sizeof(whole));
        assert_int_equal(view_read(view, at, whole + (at - PORTUS_POOL_SECOND), length), 0);
    }
    assert_null(memmem(whole, sizeof(whole), "SSSS", 4));
    assert_null(memmem(whole, sizeof(whole), "secret", 6));
    for (uint64_t i = 0, random = 5; i < 2000; i++) {
        uint64_t at = random64(&random) % (end - PORTUS_POOL_SECOND);
        size_t length = random64(&random) % 5000;

        length = length < end - PORTUS_POOL_SECOND - at ? length : end - PORTUS_POOL_SECOND - at;
        assert_int_equal(view_read(view, PORTUS_POOL_SECOND + at, piece, length), 0);
        assert_memory_equal(piece, whole + at, length);
    }
    assert_int_equal(view_read(view, UINT64_MAX - 5, piece, 10), -EINVAL);
    assert_int_equal(view_read(view, end, piece, 4096), -EINVAL);

    /* What is removed while it is looked at is gone. */
    assert_int_equal(pool_get(pool, mine, &version), 0);
    assert_int_equal(pool_remove(pool, &version), 0);
    keep(pool, 2, 5, "/secret/three", 'S', 2500000);
    assert_int_equal(pool_get(part, mine, &version), 0);
    assert_int_equal(pool_read(part, &version, 0, bytes, 2500000), -ESTALE);
    pool_close(part);
    view_close(view);

    /* Root sees all; one who has nothing sees that. */
    assert_int_equal(view_open(&view, pool, &all), 0);
    part = open_view(view);
    versions = 0;
    pool_each(part, count, &versions);
    assert_int_equal(versions, 4);
    pool_close(part);
    view_close(view);
    one.owner = 3;
    assert_int_equal(view_open(&view, pool, &one), 0);
    part = open_view(view);
    versions = 0;
    pool_each(part, count, &versions);
    assert_int_equal(versions, 0);
    pool_close(part);
    view_close(view);
    pool_close(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_owners), cmocka_unit_test(test_view)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
