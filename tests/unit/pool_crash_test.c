/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_crash_test.c -- a power cut after each store of each operation
 *
 * A backend records every store, flush and fence of an operation. They are replayed: after
 * each store, the lines that are not surely persistent are dropped, kept, or torn at 8
 * bytes (all combinations where those are few, random ones otherwise), the pool is opened
 * from what is left, and must be as before the operation or as after it.
 */
#define SIZE (IMAGE_DATA + (128u << 10))
#define LIMIT (SIZE + (64u << 10)) /* grown */
#if defined(__SANITIZE_THREAD__)
#define SAMPLES 10 /* one thread: to see that it runs */
#define OPERATIONS 60
#define SCRUBS 9
#define STATES_LEAST 1000
#elif defined(__SANITIZE_ADDRESS__)
#define SAMPLES 50 /* ten times slower */
#define OPERATIONS 250
#define SCRUBS 36
#define STATES_LEAST 20000
#else
#define SAMPLES 150
#define OPERATIONS 500
#define SCRUBS 180
#define STATES_LEAST 100000
#endif

#include "pool_replay.h"
#include "store/scrub.h"

/* ---- operations ---- */

static char *work; /* where they happen */

static struct pool *begin(void)
{
    struct pool *pool;
    struct map *map;

    memcpy(image, work, LIMIT);
    tape.base = work;
    tape.count = tape.used = 0;
    assert_int_equal(map_memory(&map, work, SIZE, LIMIT, &tape_backend, NULL), 0);
    map->size = LIMIT;
    assert_int_equal(pool_open_map(&pool, map, true), 0);
    assert_int_equal(tape.count, 0); /* nothing to repair after a whole operation */
    memset(&allowed, 0, sizeof(allowed));
    allowed.contents[allowed.count++] = contents_of(pool);
    allowed.sizes[0] = pool->super.pool_bytes;
    return pool;
}

static void end(struct pool *pool, uint64_t *seed)
{
    allowed.contents[allowed.count++] = contents_of(pool);
    allowed.sizes[1] = pool->super.pool_bytes;
    assert_int_equal(allowed.contents[allowed.count - 1].error, 0);
    pool_close(pool);
    replay(seed);
}

/* Contents between removals: the versions that are gone at the end went one by one. */
static void allow_steps(const struct contents *before, const struct contents *after)
{
    struct contents now = *before;

    for (size_t i = 0, kept = 0; i < now.count;) {
        if (kept < after->count && now.numbers[i] == after->numbers[kept]) {
            i++;
            kept++;
            continue;
        }
        now.count--;
        memmove(&now.numbers[i], &now.numbers[i + 1], (now.count - i) * sizeof(*now.numbers));
        memmove(&now.sums[i], &now.sums[i + 1], (now.count - i) * sizeof(*now.sums));
        assert_true(allowed.count < 38);
        allowed.contents[allowed.count++] = now;
    }
}

static int pick(const struct pool_version *version, void *argument)
{
    uint64_t *left = argument;

    return (*left)-- == 0 ? (int)version->number : 0;
}

static int take(const struct pool_version *version, void *argument)
{
    struct pool_version *wanted = argument;

    if (version->number != wanted->number)
        return 0;
    *wanted = *version;
    return 1;
}

/* A random version; false: there is none. */
static bool any(struct pool *pool, uint64_t *seed, struct pool_version *version)
{
    uint64_t left = allowed.contents[0].count;

    if (left == 0)
        return false;
    left = below(seed, left);
    version->number = pool_each(pool, pick, &left);
    return pool_each(pool, take, version) == 1;
}

static void operate(struct pool *pool, uint64_t *seed)
{
    static const char *const paths[] = {"/d/a", "/d/b", "/d/c.tmp", "/e/f"};
    struct pool_version version;
    struct contents after;
    uint64_t number, kind = below(seed, 10);
    uint32_t file = below(seed, 4);
    int error = 0;

    if (kind < 4 || !any(pool, seed, &version)) {
        error =
            image_commit(pool, file, paths[file], random64(seed), 1 + below(seed, 4000), &number);
        if (error == -ENOSPC)
            kind = 9;
    } else if (kind < 6) {
        error =
            pool_rename(pool, &version.key, paths[below(seed, 4)], POOL_SETTLED_AS_IT_WAS, &number);
    } else if (kind < 7) {
        error = pool_remove(pool, &version);
    } else if (kind < 8) {
        allowed.may_repair = true;
        error = pool_pin(pool, &version, !version.pinned);
    }
    if (kind >= 8) {
        assert_true(pool_make_room(pool, kind == 8 ? UINT64_MAX : 60 << 10, 1) >= 0);
        after = contents_of(pool);
        allow_steps(&allowed.contents[0], &after);
    }
    assert_true(error == 0 || error == -ENOSPC);
}

static void test_operations(void **state)
{
    uint64_t seed = 20, before = states;

    image_make(work, SIZE, 32);
    for (int i = 0; i < OPERATIONS; i++) {
        struct pool *pool = begin();

        if (allowed.contents[0].count > 9 && pool->data.free > 0) {
            struct pool_version version;

            assert_true(any(pool, &seed, &version));
            assert_int_equal(pool_remove(pool, &version), 0);
        } else {
            operate(pool, &seed);
        }
        end(pool, &seed);
    }
    print_message("%llu states of operations\n", (unsigned long long)(states - before));
}

static void test_draft(void **state)
{
    uint64_t seed = 30, number;

    /* Written in pieces, over one another, cut; then dropped or committed. */
    image_make(work, SIZE, 32);
    for (int i = 0; i < 6; i++) {
        struct pool_attributes attributes = {.path = "/d/a", .job = "job"};
        struct pool_key key = key_of(1);
        struct pool_draft *draft;
        struct pool *pool = begin();
        char bytes[3000];

        assert_int_equal(pool_begin(pool, &key, &draft), 0);
        for (int j = 0; j < 4; j++) {
            fill_bytes(bytes, sizeof(bytes), random64(&seed) | 1);
            assert_int_equal(pool_write(draft, below(&seed, 8000), bytes, 1 + below(&seed, 3000)),
                             0);
        }
        attributes.size = 4000 + below(&seed, 9000);
        if (i % 3 == 2)
            pool_drop(draft);
        else
            assert_int_equal(pool_commit(draft, &attributes, &number), 0);
        end(pool, &seed);
    }
}

static void test_grow(void **state)
{
    uint64_t seed = 40, number;
    struct pool *pool;

    for (int i = 0; i < 8; i++) {
        image_make(work, SIZE, 32);
        pool = begin();
        assert_int_equal(image_commit(pool, 1, "/d/a", 5, 3000, &number), 0);
        pool_close(pool);
        pool = begin();
        allowed.may_repair = true;
        assert_int_equal(pool_set_size(pool, LIMIT), 0);
        end(pool, &seed);
    }
}

static void test_shrink(void **state)
{
    uint64_t seed = 45, number, before = states;
    struct pool *pool;

    for (int i = 0; i < 8; i++) {
        image_make(work, SIZE, 32);
        pool = begin();
        assert_int_equal(image_commit(pool, 1, "/d/a", 5, 3000, &number), 0);
        if (i % 2 == 0)
            assert_int_equal(pool_set_size(pool, LIMIT), 0);
        pool_close(pool);
        pool = begin();
        allowed.may_repair = true;
        assert_int_equal(pool_set_size(pool, SIZE - (i / 2 << 12)), 0);
        end(pool, &seed);
    }
    print_message("%llu states of shrinking\n", (unsigned long long)(states - before));
}

/*
 * The first save is being read when the third one takes its room: what is read are its bytes, or
 * that it is gone.
 */
static struct {
    struct pool *pool;
    struct pool_version version;
    uint64_t seed;
    char bytes[40000];
    size_t reads, gone;
} reader;

static void read_on(void)
{
    static char bytes[sizeof(reader.bytes)];
    uint64_t offset = below(&reader.seed, sizeof(bytes));
    size_t length = 1 + below(&reader.seed, sizeof(bytes) - offset);
    int error = pool_read(reader.pool, &reader.version, offset, bytes, length);

    if (error == 0)
        assert_memory_equal(bytes, reader.bytes + offset, length);
    else
        assert_int_equal(error, -ESTALE);
    reader.gone += error != 0;
    reader.reads++;
}

static void test_reader(void **state)
{
    uint64_t seed = 46, before = states, first, number;

    for (int i = 0; i < 10; i++) {
        struct contents after;
        struct pool *pool;

        image_make(work, SIZE, 32);
        memset(work + SIZE, 0, LIMIT - SIZE);
        pool = begin();
        fill_bytes(reader.bytes, sizeof(reader.bytes), (10 + i) | 1);
        assert_int_equal(image_commit(pool, 1, "/d/a", 10 + i, sizeof(reader.bytes), &first), 0);
        assert_int_equal(image_commit(pool, 1, "/d/a", 30 + i, 45000 + i, &number), 0);
        pool_close(pool);
        pool = begin();
        assert_int_equal(image_open_by(&reader.pool, work, LIMIT, false, &image_backend, NULL), 0);
        reader.version.number = first;
        assert_int_equal(pool_each(reader.pool, take, &reader.version), 1);
        reader.seed = 47 + i;
        reader.reads = reader.gone = 0;
        tape_watch = read_on;
        assert_true(pool_make_room(pool, 60 << 10, 1) >= 60 << 10);
        after = contents_of(pool);
        assert_int_equal(after.count, 1);
        allow_steps(&allowed.contents[0], &after);
        assert_int_equal(reader.gone > 0, true); /* from its removal on */
        assert_int_equal(image_commit(pool, 1, "/d/a", 50 + i, 50000 + i, &number), 0);
        tape_watch = NULL;
        assert_true(reader.reads > 8 && reader.gone < reader.reads);
        pool_close(reader.pool);
        end(pool, &seed);
    }
    print_message("%llu states of a third save\n", (unsigned long long)(states - before));
}

/* ---- scrub ---- */

static struct pool_version damaged;

static int fetch(const struct pool_version *version, const struct scrub_stamp *stamp,
                 uint64_t offset, void *to, size_t length)
{
    static char bytes[8192];

    fill_bytes(bytes, version->attributes.size, (uint64_t)version->attributes.mtime | 1);
    memcpy(to, bytes + offset, length);
    return version->number == damaged.number ? 0 : -ESTALE;
}

/* Damages one of what a scrub repairs, in the pool and in what a power cut begins with. */
static void damage(struct pool *pool, unsigned kind, uint64_t *seed)
{
    uint64_t at = 0, length = 64;
    struct body body = {0};
    char bytes[128];

    assert_true(any(pool, seed, &damaged));
    if (kind < 2)
        at = super_offset((int)kind), length = 128;
    else if (kind < 6) /* a copy of a slot, or of its marks */
        at = slot_offset(&pool->super, damaged.place, kind & 1) + (kind < 4 ? 0 : 64);
    if (kind < 6) {
        fill_bytes(bytes, length, random64(seed) | 1);
        memcpy(work + at, bytes, length);
        memcpy(image + at, bytes, length);
        return;
    }
    assert_int_equal(pool_body(pool, pool_find(pool, damaged.number), &body), 0);
    for (uint64_t i = 0; i < body.head->extents; i++) {
        at = body.extents[i].place + below(seed, body.extents[i].length);
        work[at] ^= 0x10;
        image[at] ^= 0x10;
    }
    body_free(&body);
    allowed.unreadable = damaged.number;
}

static void test_scrub(void **state)
{
    static char bytes[8192];
    uint64_t seed = 48, before = states, number;

    for (int i = 0; i < SCRUBS; i++) {
        struct scrub *scrub;
        struct pool *pool;
        struct pool_version version;
        unsigned kind = i % 9;
        int more = 1;

        image_make(work, SIZE, 32);
        pool = begin();
        for (int j = 0; j < 4; j++)
            assert_int_equal(
                image_commit(pool, j, "/d/a", 60 + j, 100 + below(&seed, 6000), &number), 0);
        version.number = number;
        assert_int_equal(pool_each(pool, take, &version), 1);
        assert_int_equal(pool_pin(pool, &version, true), 0);
        pool_close(pool);
        pool = begin();
        damage(pool, kind, &seed);
        if (allowed.unreadable != 0) {
            fill_bytes(bytes, damaged.attributes.size, (uint64_t)damaged.attributes.mtime | 1);
            allowed.right = portus_crc32(0, bytes, damaged.attributes.size);
            allowed.contents[0] = contents_now(pool);
        }
        allowed.may_repair = true;
        allowed.mends = i % 18 != 8;
        assert_int_equal(scrub_begin(&scrub, pool, 0), 0);
        while (more == 1)
            more = scrub_step(scrub, 4096, i % 18 == 8 ? NULL : fetch); /* 8: marked as damaged */
        assert_int_equal(more, 0);
        scrub_end(scrub);
        allowed.contents[allowed.count++] = contents_now(pool);
        allowed.sizes[1] = pool->super.pool_bytes;
        assert_true(same_contents(&allowed.contents[0], &allowed.contents[1]));
        if (i % 18 != 8)
            assert_int_equal(contents_of(pool).error, 0);
        pool_close(pool);
        replay(&seed);
    }
    print_message("%llu states of scrubbing\n", (unsigned long long)(states - before));
}

/* Over nothing, and over an older pool. */
static void test_create(void **state)
{
    uint64_t seed = 50, number;
    struct pool *pool;
    struct map *map;

    for (int i = 0; i < 6; i++) {
        image_make(work, SIZE, 32);
        pool = begin();
        assert_int_equal(image_commit(pool, 1, "/d/a", 6, 3000, &number), 0);
        pool_close(pool);
        pool_close(begin());
        if (i % 2 == 0) {
            memset(work, 0, LIMIT);
            memset(image, 0, LIMIT);
            allowed.count = 0;
        }
        assert_int_equal(map_memory(&map, work, SIZE, SIZE, &tape_backend, NULL), 0);
        if (i % 2 != 0)
            assert_int_equal(pool_create_map(map, SIZE, 32, false, false), -EEXIST);
        assert_int_equal(tape.count, 0);
        assert_int_equal(pool_create_map(map, SIZE, 32, true, false), 0);
        map_close(map);
        allowed.contents[allowed.count++] = (struct contents){0};
        allowed.sizes[0] = allowed.sizes[1] = SIZE;
        allowed.may_refuse = allowed.may_repair = true;
        replay(&seed);
    }
}

/* The test itself: with the flushes taken away, something must go wrong. */
static void lose_flush(void *self, char *at, size_t length)
{
}

static void test_sees_missing_flush(void **state)
{
    struct map_backend backend = tape_backend;
    uint64_t seed = 60, number;
    struct pool *pool;
    struct map *map;
    size_t wrong = 0;

    backend.flush = lose_flush;
    image_make(work, SIZE, 32);
    memcpy(image, work, LIMIT);
    tape.base = work;
    tape.count = tape.used = lines_count = 0;
    assert_int_equal(map_memory(&map, work, LIMIT, LIMIT, &backend, NULL), 0);
    assert_int_equal(pool_open_map(&pool, map, true), 0);
    assert_int_equal(image_commit(pool, 1, "/d/a", 7, 3000, &number), 0);
    pool_close(pool);
    for (size_t i = 0; i < tape.count; i++)
        if (tape.events[i].kind == STORE)
            replay_store(&tape.events[i]);
    for (int i = 0; i < 100; i++) {
        struct contents contents;

        memcpy(image, work, PORTUS_POOL_SECOND + PORTUS_POOL_PAGE);
        for (size_t j = 0; j < lines_count; j++) {
            memset(image + lines[j].number * LINE, 0, LINE);
            apply(&lines[j], below(&seed, 2), &seed);
        }
        if (image_open_by(&pool, image, LIMIT, true, &image_backend, NULL) != 0) {
            wrong++;
            continue;
        }
        contents = contents_of(pool);
        wrong += contents.error != 0 || pool->damaged_count > 0;
        pool_close(pool);
    }
    for (size_t i = 0; i < lines_count; i++)
        line_index[lines[i].number] = 0;
    lines_count = 0;
    assert_true(wrong > 10);
}

static int setup(void **state)
{
    image = aligned_alloc(4096, LIMIT);
    work = aligned_alloc(4096, LIMIT);
    lines = calloc(LINES, sizeof(*lines));
    line_index = calloc(LINES + 1, sizeof(*line_index));
    assert_true(image != NULL && work != NULL && lines != NULL && line_index != NULL);
    memset(work, 0, LIMIT);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    return 0;
}

static int teardown(void **state)
{
    print_message("%llu states\n", (unsigned long long)states);
    free(image);
    free(work);
    free(lines);
    free(line_index);
    free(tape.events);
    free(tape.bytes);
    return states >= STATES_LEAST ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_draft),
        cmocka_unit_test(test_grow),       cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_reader),     cmocka_unit_test(test_scrub),
        cmocka_unit_test(test_create),     cmocka_unit_test(test_sees_missing_flush),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
