/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_damage_test.c -- each bit flipped in turn, ranges overwritten, impossible numbers
 *
 * What stands twice (superblocks, slots) must lose nothing; a damaged body or extent costs
 * its own version and no other; a line tells of everything.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "../fuzz/pool_patch.h"

#if defined(__SANITIZE_THREAD__)
#define STEP 61 /* one thread: to see that it runs */
#elif defined(__SANITIZE_ADDRESS__)
#define STEP 7 /* every seventh bit: ten times slower */
#else
#define STEP 1
#endif

static char *base, *image;
static struct contents whole; /* of the pool that is not damaged */
static unsigned flipped; /* bits */
static char said[] = "/tmp/pool_damage_XXXXXX";

struct found {
    const struct pool *pool;
    size_t right, unreadable;
};

static int compare(const struct pool_version *version, void *argument)
{
    struct found *found = argument;
    struct contents one = {.pool = found->pool};

    sum_version(version, &one);
    if (one.error != 0) {
        assert_int_equal(one.error, -EUCLEAN);
        found->unreadable++;
        return 0;
    }
    for (size_t i = 0; i < whole.count; i++) {
        if (one.numbers[0] == whole.numbers[i]) {
            assert_int_equal(one.sums[0], whole.sums[i]); /* never wrong bytes */
            found->right++;
            return 0;
        }
    }
    fail_msg("version %llu is none that was stored", (unsigned long long)version->number);
    return 0;
}

static struct found look(const struct pool *pool)
{
    struct found found = {.pool = pool};

    pool_each(pool, compare, &found);
    return found;
}

/* Opens the image: all versions are right but for `lost_at_most`. */
static void check(size_t lost_at_most)
{
    struct pool_state state;
    struct found found, again;
    struct pool *pool;
    bool told;

    image_said(said);
    assert_int_equal(image_open_by(&pool, image, PATCH_SIZE, false, &image_backend, NULL), 0);
    found = look(pool);
    assert_true(found.right + lost_at_most >= whole.count);
    pool_close(pool);
    image_said(said);

    assert_int_equal(image_open_by(&pool, image, PATCH_SIZE, true, &image_backend, NULL), 0);
    pool_look(pool, &state);
    told = image_said(said);
    assert_true(told || (state.repaired == 0 && state.damaged == 0));
    again = look(pool);
    assert_int_equal(again.right, found.right);
    if (found.right < whole.count)
        assert_true(told || (again.unreadable > 0 && image_said(said)));
    patch_count(pool);
    pool_close(pool);

    /* What was repaired stays so. */
    assert_int_equal(image_open_by(&pool, image, PATCH_SIZE, true, &image_backend, NULL), 0);
    pool_look(pool, &state);
    assert_int_equal(state.repaired, 0);
    again = look(pool);
    assert_int_equal(again.right, found.right);
    assert_int_equal(pool_remove_damaged(pool), 0);
    pool_look(pool, &state);
    assert_int_equal(state.damaged, 0);
    patch_count(pool);
    pool_close(pool);
}

/* Flips each bit of a range of the image. */
static void flip(uint64_t begin, uint64_t bytes, size_t lost)
{
    static unsigned turn;

    for (uint64_t bit = turn++ % STEP; bit < bytes * 8; bit += STEP) {
        patch_restore(image, base);
        image[begin + bit / 8] ^= 1 << bit % 8;
        check(lost);
        flipped++;
    }
}

static void test_superblocks(void **state)
{
    flip(0, sizeof(struct portus_pool_superblock), 0);
    flip(PORTUS_POOL_SECOND, sizeof(struct portus_pool_superblock), 0);
}

static void test_slots(void **state)
{
    for (uint32_t slot = 0; slot < 8; slot++)
        for (int copy = 0; copy < 2; copy++)
            flip(PORTUS_POOL_SECOND + PORTUS_POOL_PAGE * (1 + copy) +
                     slot * sizeof(struct portus_pool_slot),
                 sizeof(struct portus_pool_slot), 0);
}

/* Bodies cost their version, at any bit; so do bytes, but only when they are read. */
static void test_versions(void **state)
{
    struct pool *pool = image_open(base, PATCH_SIZE);
    struct body body = {0};

    for (size_t i = 0; i < pool->count; i++) {
        struct entry *entry = &pool->entries[i];

        if (entry->dead)
            continue;
        assert_int_equal(pool_body(pool, entry, &body), 0);
        flip(entry->body, entry->body_bytes, 1);
        for (uint64_t j = 0; j < body.head->extents; j++)
            flip(body.extents[j].place, body.extents[j].length, 1);
    }
    body_free(&body);
    pool_close(pool);
}

/* 1,000 ranges overwritten: with zeros, ones, anything. */
static void test_ranges(void **state)
{
    uint64_t seed = 70, end = IMAGE_DATA + (40u << 10);

    for (int i = 0; i < 1000; i++) {
        uint64_t length = 1 + below(&seed, i % 2 == 0 ? 64 : 4096), begin;
        unsigned kind = below(&seed, 3);
        bool twice;

        begin = PORTUS_POOL_SECOND + below(&seed, end - PORTUS_POOL_SECOND - length);
        if (below(&seed, 8) == 0)
            begin = 0;
        patch_restore(image, base);
        if (kind < 2)
            memset(image + begin, kind == 0 ? 0 : 0xff, length);
        else
            fill_bytes(image + begin, length, random64(&seed) | 1);
        twice = begin + length <= IMAGE_DATA;
        check(twice ? 0 : whole.count);
    }
}

/* Both superblocks: refused, and nothing is changed. */
static void test_refused(void **state)
{
    char *before = malloc(PATCH_SIZE);
    struct portus_pool_superblock *super;
    struct pool *pool;

    patch_restore(image, base);
    image[5] ^= 1;
    image[PORTUS_POOL_SECOND + 30] ^= 1;
    memcpy(before, image, PATCH_SIZE);
    assert_int_equal(image_open_by(&pool, image, PATCH_SIZE, true, &image_backend, NULL), -EUCLEAN);
    assert_memory_equal(before, image, PATCH_SIZE);

    /* Of another layout, in its own words. */
    patch_restore(image, base);
    super = (void *)image;
    super->version = 2;
    super->bytes = 256;
    *(uint32_t *)(void *)(image + 252) = portus_crc32(0, image, 252);
    memcpy(before, image, PATCH_SIZE);
    assert_int_equal(image_open_by(&pool, image, PATCH_SIZE, true, &image_backend, NULL),
                     -EPROTONOSUPPORT);
    assert_memory_equal(before, image, PATCH_SIZE);

    memset(image, 0, PATCH_SIZE);
    assert_int_equal(image_open_by(&pool, image, PATCH_SIZE, true, &image_backend, NULL), -EUCLEAN);
    memcpy(image, base, PATCH_SIZE);
    free(before);
}

/* Versions that claim each other's units, or what is not there, with right CRCs. */
static void test_claims(void **state)
{
    struct portus_pool_body *head;
    struct portus_pool_extent *extent;
    struct body body = {0}, other = {0};
    struct found found;
    struct pool *pool;

    for (int kind = 0; kind < 8; kind++) {
        patch_restore(image, base);
        pool = image_open(image, PATCH_SIZE);
        assert_int_equal(pool_body(pool, pool_find(pool, whole.numbers[1]), &body), 0);
        assert_int_equal(pool_body(pool, pool_find(pool, whole.numbers[2]), &other), 0);
        head = (void *)(image + pool_find(pool, whole.numbers[2])->body);
        extent = (void *)((char *)head + ((char *)other.extents - (char *)other.head));
        pool_close(pool);
        assert_true(other.head->extents > 1);
        if (kind == 0)
            extent->place = body.extents[0].place; /* another version's */
        else if (kind == 1)
            extent[1].place = extent[0].place; /* its own */
        else if (kind == 2)
            extent->place = PORTUS_POOL_SECOND; /* the superblock */
        else if (kind == 3)
            extent->place = UINT64_MAX - 1023;
        else if (kind == 4)
            extent->length = UINT32_MAX;
        else if (kind == 5)
            head->path_bytes = UINT32_MAX;
        else if (kind == 6)
            head->extents = UINT64_MAX / 12;
        else
            extent[1].offset = extent[0].offset;
        patch_mend(image, MEND_BODIES);
        image_said(said);
        pool = image_open(image, PATCH_SIZE);
        assert_true(image_said(said));
        found = look(pool);
        assert_int_equal(found.right, whole.count - 1);
        assert_int_equal(pool->damaged_count, 1);
        patch_count(pool);
        pool_close(pool);
    }
    body_free(&body);
    body_free(&other);
}

/*
 * A rename that stopped before the old version was removed. kind 1: a version between the
 * two claims the same units; 2: what says that it replaces the old one has other extents.
 */
static void test_takes(void **state)
{
    struct portus_pool_slot slots[2], *renamed;
    struct pool_key key = key_of(1);
    struct portus_pool_body *head;
    struct body body = {0};
    struct pool *pool;
    uint64_t number, old = whole.numbers[2], between;
    uint32_t slot;

    for (int kind = 0; kind < 3; kind++) {
        patch_restore(image, base);
        pool = image_open(image, PATCH_SIZE);
        slot = pool_find(pool, old)->slot;
        assert_int_equal(pool_body(pool, pool_find(pool, old), &body), 0);
        assert_true(body.head->extents > 1);
        assert_int_equal(image_commit(pool, 9, "/w", 9, 1000, &between), 0);
        for (int copy = 0; copy < 2; copy++)
            memcpy(&slots[copy], image + slot_offset(&pool->super, slot, copy), sizeof(slots[0]));
        assert_int_equal(pool_rename(pool, &key, "/n", POOL_SETTLED_AS_IT_WAS, &number), 0);
        for (int copy = 0; copy < 2; copy++)
            memcpy(image + slot_offset(&pool->super, slot, copy), &slots[copy], sizeof(slots[0]));
        renamed = (void *)(image + slot_offset(&pool->super, pool_find(pool, number)->slot, 0));
        assert_int_equal(renamed->takes, old);
        head = (void *)(image + pool_find(pool, kind == 1 ? between : number)->body);
        if (kind > 0) {
            struct portus_pool_extent *extent =
                (void *)((char *)head + head->bytes - sizeof(*extent));

            extent->place = body.extents[0].place;
            patch_mend(image, MEND_BODIES);
        }
        pool_close(pool);
        for (int again = 0; again < 2; again++) {
            pool = image_open(image, PATCH_SIZE);
            assert_int_equal(pool->damaged_count, kind > 0 && again == 0);
            assert_true((pool_find(pool, number) != NULL) == (kind < 2));
            assert_true((pool_find(pool, old) != NULL) == (kind == 2));
            assert_true((pool_find(pool, between) != NULL) == (kind != 1));
            assert_int_equal(contents_of(pool).error, 0);
            assert_int_equal(pool_remove_damaged(pool), 0);
            patch_count(pool);
            pool_close(pool);
        }
    }
    body_free(&body);
}

/* The fuzzer's entry, for a moment. */
static void test_patches(void **state)
{
    static const uint8_t flags[] = {0, 1, 2, 4, 6, 7, 8, 12, 14, 15};
    uint64_t seed = 80;
    uint8_t data[256];

    for (int i = 0; i < 20000 / STEP; i++) {
        size_t size = 5 + below(&seed, i % 4 == 0 ? 200 : 20), at;

        fill_bytes((char *)data, sizeof(data), random64(&seed) | 1);
        data[0] = flags[below(&seed, sizeof(flags))];
        for (at = 1; at + 4 < size; at += 4 + data[at + 3]) {
            /* Where something is: superblocks, the first slots, bodies. */
            uint32_t places[] = {below(&seed, 256), 256 + below(&seed, 1024),
                                 256 + 4096 + below(&seed, 1024), 256 + 8192 + below(&seed, 24000)};
            uint32_t where = places[below(&seed, 4)] & ~(below(&seed, 2) ? 7u : 0);

            memcpy(data + at, &where, 3);
            data[at + 3] = 1 + below(&seed, 8);
        }
        patch_run(image, base, data, size);
        image_said(said);
    }
}

static int setup(void **state)
{
    int fd = mkstemp(said);

    assert_true(fd >= 0);
    close(fd);
    portus_log_setup(PORTUS_LOG_WARN, said, "portus: ");
    base = aligned_alloc(4096, PATCH_SIZE);
    image = aligned_alloc(4096, PATCH_SIZE);
    assert_true(base != NULL && image != NULL);
    patch_base(base, &whole);
    memcpy(image, base, PATCH_SIZE);
    return 0;
}

static int teardown(void **state)
{
    printf("%u bits flipped\n", flipped);
    unlink(said);
    free(base);
    free(image);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_superblocks), cmocka_unit_test(test_slots),
        cmocka_unit_test(test_versions),    cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_claims),
        cmocka_unit_test(test_takes),       cmocka_unit_test(test_patches),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
