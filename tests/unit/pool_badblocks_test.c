/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_badblocks_test.c -- bad blocks: told with what they hit, cleared, repaired
 *
 * The list is this test's (--wrap, see the Makefile); clearing one makes zeros of it, as the
 * kernel does. The pool is a real file.
 */
#include <fcntl.h>
#include <libpmem2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool_image.h"
#include "store/badblocks.h"
#include "store/scrub.h"

#define SIZE (16u << 20)
#define BLOCK 512u

static char path[] = "/tmp/pool_badblocks_XXXXXX";
static struct pmem2_badblock bad[8];
static size_t bad_count, at;
static int refuses; /* to clear: this error */

int __wrap_pmem2_badblock_context_new(struct pmem2_badblock_context **context,
                                      struct pmem2_source *source);
int __wrap_pmem2_badblock_next(struct pmem2_badblock_context *context,
                               struct pmem2_badblock *block);
int __wrap_pmem2_badblock_clear(struct pmem2_badblock_context *context,
                                const struct pmem2_badblock *block);
void __wrap_pmem2_badblock_context_delete(struct pmem2_badblock_context **context);

int __wrap_pmem2_badblock_context_new(struct pmem2_badblock_context **context,
                                      struct pmem2_source *source)
{
    assert_true(source != NULL);
    *context = (void *)&at;
    at = 0;
    return 0;
}

int __wrap_pmem2_badblock_next(struct pmem2_badblock_context *context, struct pmem2_badblock *block)
{
    if (at == bad_count)
        return PMEM2_E_NO_BAD_BLOCK_FOUND;
    *block = bad[at++];
    return 0;
}

int __wrap_pmem2_badblock_clear(struct pmem2_badblock_context *context,
                                const struct pmem2_badblock *block)
{
    char zeros[BLOCK] = "";
    int fd = open(path, O_WRONLY);

    if (refuses != 0)
        return refuses;
    for (size_t i = 0; i < block->length; i += BLOCK)
        assert_int_equal(pwrite(fd, zeros, BLOCK, block->offset + i), BLOCK);
    close(fd);
    return 0;
}

void __wrap_pmem2_badblock_context_delete(struct pmem2_badblock_context **context)
{
    *context = NULL;
}

struct told {
    size_t lines;
    uint64_t numbers[8];
    char whats[8][64], paths[8][32];
};

static void tell(const char *what, uint64_t number, const char *name, void *argument)
{
    struct told *told = argument;

    assert_true(told->lines < 8);
    told->numbers[told->lines] = number;
    snprintf(told->whats[told->lines], sizeof(told->whats[0]), "%s", what);
    snprintf(told->paths[told->lines++], sizeof(told->paths[0]), "%s", name != NULL ? name : "");
}

static struct told look(struct pool *pool, uint64_t offset, uint64_t length)
{
    struct bad_block range = {offset, length};
    struct told told = {0};

    assert_int_equal(pool_at(pool, &range, tell, &told), 0);
    return told;
}

static void test_hits(void **state)
{
    uint64_t numbers[2], data, body, place;
    struct portus_pool_superblock super;
    struct body extents = {0};
    struct pool *pool;
    struct told told;

    assert_int_equal(pool_create(path, SIZE, 0, true), 0);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(image_commit(pool, 1, "/d/a", 1, 5000, &numbers[0]), 0);
    assert_int_equal(image_commit(pool, 2, "/d/b", 2, 5000, &numbers[1]), 0);
    super = pool->super;
    data = super.data;
    body = pool_find(pool, numbers[1])->body;
    assert_int_equal(pool_body(pool, pool_find(pool, numbers[1]), &extents), 0);
    place = extents.extents[0].place;
    body_free(&extents);

    told = look(pool, 0, BLOCK);
    assert_true(told.lines == 1 && strstr(told.whats[0], "superblock") != NULL);
    told = look(pool, PORTUS_POOL_SECOND + 4095, 1);
    assert_true(told.lines == 1 && strstr(told.whats[0], "superblock") != NULL);
    told = look(pool, PORTUS_POOL_PAGE, BLOCK);
    assert_int_equal(told.lines, 0);
    told = look(pool, super.second_catalogue, 1);
    assert_true(told.lines == 1 && strstr(told.whats[0], "catalogue") != NULL);
    told = look(pool, place + 4999, 1);
    assert_true(told.lines == 1 && told.numbers[0] == numbers[1]);
    assert_string_equal(told.paths[0], "/d/b");
    assert_string_equal(told.whats[0], "bytes of it");
    told = look(pool, place + 5000, 1);
    assert_int_equal(told.lines, 0);
    told = look(pool, body, 1);
    assert_true(told.lines == 1 && strstr(told.whats[0], "lost") != NULL);
    told = look(pool, data, SIZE - data); /* both, bytes and bodies */
    assert_int_equal(told.lines, 4);
    told = look(pool, SIZE - BLOCK, BLOCK);
    assert_int_equal(told.lines, 0);
    assert_int_equal(pool_at(pool, &(struct bad_block){UINT64_MAX, UINT64_MAX}, tell, &told),
                     -EINVAL);
    pool_close(pool);
}

/* All that stands twice is lost once: cleared, it is repaired by the next opening. */
static void test_clear(void **state)
{
    struct bad_block *blocks;
    struct contents before, after;
    struct pool *pool, *reader;
    size_t count, cleared;
    uint64_t number;
    struct scrub *scrub;
    struct scrub_report report;

    assert_int_equal(pool_create(path, SIZE, 0, true), 0);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(image_commit(pool, 1, "/d/a", 1, 5000, &number), 0);
    before = contents_of(pool);
    bad[0] = (struct pmem2_badblock){0, BLOCK};
    bad[1] = (struct pmem2_badblock){PORTUS_POOL_SECOND + PORTUS_POOL_PAGE, 2 * BLOCK};
    bad_count = 2;
    assert_int_equal(bad_blocks_clear(path, &cleared), -EBUSY);
    assert_int_equal(cleared, 0);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    pool_close(pool);

    assert_int_equal(bad_blocks_list(path, &blocks, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(blocks[1].offset, bad[1].offset);
    assert_int_equal(blocks[1].length, 2 * BLOCK);
    free(blocks);
    refuses = -EPERM;
    assert_int_equal(bad_blocks_clear(path, &cleared), -EPERM);
    refuses = PMEM2_E_NOSUPP;
    assert_int_equal(bad_blocks_clear(path, &cleared), -EOPNOTSUPP);
    assert_int_equal(cleared, 0);
    refuses = 0;
    assert_int_equal(bad_blocks_clear(path, &cleared), 0);
    assert_int_equal(cleared, 2);
    bad_count = 0;
    assert_int_equal(bad_blocks_list(path, &blocks, &count), 0);
    assert_int_equal(count, 0);
    free(blocks);
    assert_int_equal(pool_open(&reader, path, false), 0);
    after = contents_of(reader);
    assert_true(same_contents(&before, &after));
    pool_close(reader);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(pool->repaired, 2);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    assert_int_equal(scrub_begin(&scrub, pool, 0), 0);
    assert_int_equal(scrub_step(scrub, 1 << 30, NULL), 0);
    scrub_look(scrub, &report);
    assert_int_equal(report.copies + report.damaged, 0);
    scrub_end(scrub);
    pool_close(pool);
}

static int setup(void **state)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    return 0;
}

static int teardown(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_clear),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
