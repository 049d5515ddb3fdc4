/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_scrub_test.c -- damage that comes while a pool is open: each bit, and ranges
 *
 * What stands twice is as it was afterwards. Bytes are if the file has them; otherwise their
 * version, and no other, is marked, and said to be damaged once.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "../fuzz/pool_patch.h"
#include "store/scrub.h"

#if defined(__SANITIZE_THREAD__)
#define STEP 61
#elif defined(__SANITIZE_ADDRESS__)
#define STEP 7
#else
#define STEP 1
#endif

static char *base, *image, *before;
static struct contents whole;
static struct pool *right; /* on base: the files */
static enum { RIGHT, WRONG, NONE } files;
static size_t fetched;
static char said[] = "/tmp/pool_scrub_XXXXXX";

static int fetch(const struct pool_version *version, const struct scrub_stamp *stamp,
                 uint64_t offset, void *to, size_t length)
{
    fetched++;
    assert_int_equal(stamp->size, version->attributes.size);
    assert_int_equal(stamp->mtime, version->attributes.mtime);
    if (files == NONE)
        return -ESTALE;
    assert_int_equal(pool_read(right, version, offset, to, length), 0);
    if (files == WRONG)
        ((char *)to)[length / 2] ^= 1;
    return 0;
}

/* A pass in small steps, from a version in the middle. */
static struct scrub_report scrub_all(struct pool *pool)
{
    struct scrub_report report;
    struct scrub *scrub;
    int more = 1, steps = 0;

    assert_int_equal(scrub_begin(&scrub, pool, whole.numbers[2]), 0);
    while (more == 1 && steps++ < 10000)
        more = scrub_step(scrub, 1000, fetch);
    assert_int_equal(more, 0);
    scrub_look(scrub, &report);
    assert_int_equal(report.done, report.total);
    scrub_end(scrub);
    return report;
}

static uint32_t wrong_slots(void)
{
    const struct portus_pool_superblock *super = (void *)base;
    uint32_t wrong = 0;

    for (uint32_t slot = 0; slot < super->slots; slot++) {
        struct portus_pool_slot was[2], is[2];
        struct portus_pool_marks marks[2];

        for (int copy = 0; copy < 2; copy++) {
            memcpy(&was[copy], base + slot_offset(super, slot, copy), sizeof(was[copy]));
            memcpy(&is[copy], image + slot_offset(super, slot, copy), sizeof(is[copy]));
            if (was[0].commit != 0 || slot_fields_valid(super->uuid, slot, &was[copy]))
                wrong += memcmp(&was[copy], &is[copy], 64) != 0;
            else
                wrong += is[copy].commit != 0;
        }
        if (was[0].commit == 0)
            continue;
        slot_marks(super->uuid, slot, was[0].number, was, &marks[0]);
        wrong += slot_marks(super->uuid, slot, was[0].number, is, &marks[1]) != MARKS_VALID;
        wrong += marks[0].flags != marks[1].flags;
    }
    return wrong;
}

/* All that stands twice, and all bytes, are as they were. */
static void check_whole(struct pool *pool)
{
    struct pool_state state;
    struct contents contents;

    assert_int_equal(memcmp(image, base, sizeof(struct portus_pool_superblock)), 0);
    assert_int_equal(memcmp(image + PORTUS_POOL_SECOND, base + PORTUS_POOL_SECOND,
                            sizeof(struct portus_pool_superblock)),
                     0);
    assert_int_equal(wrong_slots(), 0);
    contents = contents_of(pool);
    assert_int_equal(contents.error, 0);
    assert_true(same_contents(&contents, &whole));
    patch_count(pool);
    pool_close(pool);
    pool = image_open(image, PATCH_SIZE);
    pool_look(pool, &state);
    assert_int_equal(state.repaired + state.damaged, 0);
    contents = contents_of(pool);
    assert_true(same_contents(&contents, &whole));
    pool_close(pool);
}

static void flip_copies(uint64_t begin, uint64_t bytes)
{
    static unsigned turn;

    for (uint64_t bit = turn++ % STEP; bit < bytes * 8; bit += STEP) {
        struct pool *pool;

        patch_restore(image, base);
        pool = image_open(image, PATCH_SIZE);
        image_said(said);
        image[begin + bit / 8] ^= 1 << bit % 8;
        assert_int_equal(scrub_all(pool).damaged, 0);
        if (image_said(said))
            assert_int_equal(scrub_all(pool).copies, 0);
        else
            assert_int_equal(wrong_slots(), 0); /* it means nothing */
        assert_false(image_said(said));
        check_whole(pool);
    }
}

static void test_copies(void **state)
{
    flip_copies(0, sizeof(struct portus_pool_superblock));
    flip_copies(PORTUS_POOL_SECOND, sizeof(struct portus_pool_superblock));
    for (uint32_t slot = 0; slot < 8; slot++)
        for (int copy = 0; copy < 2; copy++)
            flip_copies(PORTUS_POOL_SECOND + PORTUS_POOL_PAGE * (1 + copy) +
                            slot * sizeof(struct portus_pool_slot),
                        sizeof(struct portus_pool_slot));
}

/* Both copies of everything: who has the pool open knows it. */
static void test_both(void **state)
{
    uint64_t seed = 5;

    for (int i = 0; i < 200; i++) {
        struct pool *pool;

        patch_restore(image, base);
        pool = image_open(image, PATCH_SIZE);
        for (uint32_t slot = 0; slot < 8; slot++) {
            uint64_t at = slot * sizeof(struct portus_pool_slot) + below(&seed, 64);
            uint64_t byte = below(&seed, 255) + 1;

            if (slot_judge(
                    pool->super.uuid, slot,
                    (struct portus_pool_slot[]){
                        *(struct portus_pool_slot *)(void *)(image +
                                                             slot_offset(&pool->super, slot, 0)),
                        *(struct portus_pool_slot *)(void *)(image +
                                                             slot_offset(&pool->super, slot, 1)),
                    }) == SLOT_FREE)
                continue; /* which number it had is not known elsewhere */
            image[PORTUS_POOL_SECOND + PORTUS_POOL_PAGE + at] ^= byte;
            image[PORTUS_POOL_SECOND + 2 * PORTUS_POOL_PAGE + at] ^= byte;
        }
        memset(image, 0x5a, 128);
        memset(image + PORTUS_POOL_SECOND, 0xa5, 128);
        assert_int_equal(scrub_all(pool).damaged, 0);
        assert_true(image_said(said));
        check_whole(pool);
    }
}

static int find(const struct pool_version *version, void *argument)
{
    struct pool_version *wanted = argument;

    if (version->number != wanted->number)
        return 0;
    *wanted = *version;
    return 1;
}

static bool is_marked(struct pool *pool, uint64_t number)
{
    struct pool_version version = {.number = number};

    assert_int_equal(pool_each(pool, find, &version), 1);
    return version.damaged;
}

/* Bytes of one version were damaged. */
static void check_bytes(uint64_t number)
{
    struct pool *pool = image_open(image, PATCH_SIZE);
    struct scrub_report report;

    /* There is no such file any more, or it has other bytes: marked, once; nothing is written. */
    memcpy(before, image, PATCH_SIZE);
    image_said(said);
    for (files = WRONG; files <= NONE; files++) {
        for (int again = 0; again < 2; again++) {
            report = scrub_all(pool);
            assert_int_equal(report.damaged, 1);
            assert_int_equal(report.repaired, 0);
            assert_int_equal(image_said(said), files == WRONG && again == 0);
            assert_true(is_marked(pool, number));
        }
        pool_close(pool);
        pool = image_open(image, PATCH_SIZE);
        assert_true(is_marked(pool, number));
    }
    assert_int_equal(memcmp(before + IMAGE_DATA, image + IMAGE_DATA, PATCH_SIZE - IMAGE_DATA), 0);
    image_said(said);

    /* The file is there. */
    files = RIGHT;
    report = scrub_all(pool);
    assert_int_equal(report.damaged, 0);
    assert_int_equal(report.repaired, 1);
    assert_true(image_said(said));
    assert_false(is_marked(pool, number));
    assert_int_equal(memcmp(base + IMAGE_DATA, image + IMAGE_DATA, PATCH_SIZE - IMAGE_DATA), 0);
    check_whole(pool);
}

/* A body says where the bytes are: without it the version is lost, and no other. */
static void check_body(uint64_t number, bool marked)
{
    struct pool *pool = image_open(image, PATCH_SIZE);
    struct contents contents;

    if (!marked) { /* it came before the opening */
        assert_int_equal(pool->damaged_count, 1);
        assert_int_equal(scrub_all(pool).damaged, 0);
    }
    contents = contents_of(pool);
    assert_int_equal(contents.count, whole.count - 1);
    for (size_t i = 0; i < contents.count; i++)
        assert_int_not_equal(contents.numbers[i], number);
    assert_int_equal(contents.error, 0);
    assert_int_equal(pool_remove_damaged(pool), 0);
    patch_count(pool);
    pool_close(pool);
}

static void test_versions(void **state)
{
    unsigned turn = 0;

    for (size_t i = 0; i < whole.count; i++) {
        struct entry *entry = pool_find(right, whole.numbers[i]);
        struct body body = {0};

        assert_int_equal(pool_body(right, entry, &body), 0);
        for (uint64_t j = 0; j < body.head->extents; j++) {
            const struct portus_pool_extent *extent = &body.extents[j];

            for (uint64_t bit = turn++ % 11; bit < extent->length * 8ul; bit += 11 * STEP) {
                patch_restore(image, base);
                image[extent->place + bit / 8] ^= 1 << bit % 8;
                check_bytes(entry->number);
            }
        }
        for (uint64_t bit = turn++ % STEP; bit < entry->body_bytes * 8; bit += STEP) {
            struct pool *pool;

            patch_restore(image, base);
            pool = image_open(image, PATCH_SIZE);
            image_said(said);
            image[entry->body + bit / 8] ^= 1 << bit % 8;
            for (int again = 0; again < 2; again++) {
                assert_int_equal(scrub_all(pool).damaged, 1);
                assert_int_equal(image_said(said), again == 0);
            }
            if (bit % 16 == 0) { /* freed by who has found it, or after another opening */
                assert_int_equal(pool_remove_damaged(pool), 0);
                assert_int_equal(contents_of(pool).count, whole.count - 1);
                pool_close(pool);
                pool = image_open(image, PATCH_SIZE);
                assert_int_equal(pool->damaged_count, 0);
                patch_count(pool);
                pool_close(pool);
            } else {
                pool_close(pool);
                check_body(entry->number, false);
            }
        }
        body_free(&body);
    }
    assert_true(fetched > 1000 / STEP);
}

/* 1,000 ranges overwritten while the pool is open: only bodies cannot be had back. */
static void test_ranges(void **state)
{
    uint64_t seed = 90, end = IMAGE_DATA + (40u << 10);
    size_t lost = 0, repaired = 0;

    files = RIGHT;
    for (int i = 0; i < 1000; i++) {
        uint64_t length = 1 + below(&seed, i % 2 == 0 ? 64 : 4096), at;
        bool hit[MAX_VERSIONS] = {false};
        struct scrub_report report;
        struct contents contents;
        struct pool *pool;
        size_t gone = 0;

        at = PORTUS_POOL_SECOND + below(&seed, end - PORTUS_POOL_SECOND - length);
        if (i % 3 == 0)
            at = IMAGE_DATA + below(&seed, 16u << 10);
        patch_restore(image, base);
        pool = image_open(image, PATCH_SIZE);
        fill_bytes(image + at, length, random64(&seed) | 1);
        for (size_t j = 0; j < whole.count; j++) {
            const struct entry *entry = pool_find(right, whole.numbers[j]);

            hit[j] = memcmp(base + entry->body, image + entry->body, entry->body_bytes) != 0;
            gone += hit[j];
        }
        report = scrub_all(pool);
        assert_int_equal(report.damaged, gone);
        repaired += report.repaired + report.copies;
        lost += gone;
        assert_int_equal(scrub_all(pool).copies, 0);
        pool_close(pool);
        pool = image_open(image, PATCH_SIZE);
        assert_int_equal(pool->repaired, 0);
        assert_int_equal(pool->damaged_count, gone);
        contents = contents_of(pool);
        assert_int_equal(contents.error, 0);
        assert_int_equal(contents.count, whole.count - gone);
        for (size_t j = 0, k = 0; j < whole.count; j++)
            if (!hit[j])
                assert_int_equal(contents.sums[k++], whole.sums[j]);
        patch_count(pool);
        pool_close(pool);
    }
    assert_true(lost > 20 && repaired > 300);
}

/* Versions come and go during a pass. */
static void test_changes(void **state)
{
    uint64_t seed = 91, number;

    files = RIGHT;
    for (int i = 0; i < 200; i++) {
        struct scrub *scrub;
        struct pool *pool;
        int more = 1;

        patch_restore(image, base);
        pool = image_open(image, PATCH_SIZE);
        assert_int_equal(scrub_begin(&scrub, pool, below(&seed, 9)), 0);
        for (int step = 0; more == 1 && step < 100; step++) {
            struct pool_version version = {.number = below(&seed, pool->newest) + 1};

            more = scrub_step(scrub, 1 + below(&seed, 2000), NULL);
            if (below(&seed, 2) == 0 && pool_each(pool, find, &version) == 1)
                assert_int_equal(pool_remove(pool, &version), 0);
            else if (step < 20)
                image_commit(pool, 7, "/d/more", step + 1, below(&seed, 5000), &number);
        }
        assert_int_equal(more, 0);
        scrub_end(scrub);
        assert_int_equal(contents_of(pool).error, 0);
        patch_count(pool);
        pool_close(pool);
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
    before = malloc(PATCH_SIZE);
    assert_true(base != NULL && image != NULL && before != NULL);
    patch_base(base, &whole);
    memcpy(image, base, PATCH_SIZE);
    assert_int_equal(image_open_by(&right, base, PATCH_SIZE, false, &image_backend, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    pool_close(right);
    unlink(said);
    free(base);
    free(image);
    free(before);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),   cmocka_unit_test(test_both),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_changes),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
