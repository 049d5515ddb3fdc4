/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_room_test.c -- which versions go, and what the index finds, against all versions looked at
 *
 * Random lives of a pool of two users. Before room is made, a model says from pool_each alone what may go,
 * in which order; and all questions that the index answers are asked both ways.
 */
#include "pool_image.h"

#define SIZE (IMAGE_DATA + (8u << 20))
#define SLOTS 120
#define KEYS 12
#define PATHS 10
#define FOLDERS 3
#define OWNERS 2

struct seen {
    uint64_t number, stored;
    uint32_t file, owner;
    char path[32], job[8];
    bool pinned, settled;
};

struct all {
    struct seen seen[SLOTS];
    size_t count;
};

static int note(const struct pool_version *version, void *argument)
{
    struct all *all = argument;
    struct seen *seen = &all->seen[all->count++];

    assert_true(all->count <= SLOTS);
    seen->number = version->number;
    seen->stored = version->stored;
    memcpy(&seen->file, version->key.handle, sizeof(seen->file));
    seen->owner = version->key.owner;
    snprintf(seen->path, sizeof(seen->path), "%s", version->attributes.path);
    snprintf(seen->job, sizeof(seen->job), "%s", version->attributes.job);
    seen->pinned = version->pinned;
    seen->settled = version->attributes.settled;
    return 0;
}

static struct all look(const struct pool *pool)
{
    struct all all = {0};

    assert_int_equal(pool_each(pool, note, &all), 0);
    for (size_t i = 1; i < all.count; i++)
        assert_true(all.seen[i].number > all.seen[i - 1].number);
    return all;
}

static bool same_folder(const struct seen *one, const struct seen *other)
{
    size_t length = strrchr(one->path, '/') - one->path;

    return strncmp(one->path, other->path, length + 1) == 0 &&
           strchr(other->path + length + 1, '/') == NULL;
}

static bool same_path(const struct seen *one, const struct seen *other)
{
    return one->owner == other->owner && strcmp(one->path, other->path) == 0 && strcmp(one->job, other->job) == 0;
}

/* ---- what may go ---- */

static bool may_go(const struct all *all, size_t i, unsigned keep)
{
    const struct seen *seen = &all->seen[i];
    unsigned of_file = 0, of_path = 0, superseded = 0;
    uint64_t settled = 0;

    for (size_t j = 0; j < all->count; j++)
        if (all->seen[j].settled && same_folder(seen, &all->seen[j]) &&
            strcmp(seen->job, all->seen[j].job) == 0 && seen->owner == all->seen[j].owner)
            settled = all->seen[j].number;
    for (size_t j = i + 1; j < all->count; j++) {
        bool file = all->seen[j].file == seen->file && all->seen[j].owner == seen->owner;
        bool path = same_path(seen, &all->seen[j]);

        of_file += file;
        of_path += path;
        superseded += (file || path) && all->seen[j].number <= settled;
    }
    return !seen->pinned && (of_file >= keep || of_path >= keep) &&
           !(seen->number <= settled && superseded == 0);
}

/* owner: of whose versions; OWNERS: of all. */
static void make_room(struct pool *pool, uint32_t owner, uint64_t bytes, unsigned keep)
{
    struct pool_share share = {
        .everyone = owner == OWNERS, .owner = owner, .bytes = UINT64_MAX, .objects = UINT64_MAX};
    struct pool_usage usage;
    struct all before = look(pool), after;
    uint64_t room = pool->data.free * PORTUS_POOL_UNIT, left[SLOTS], taken = 0;
    size_t count = 0, slots = SLOTS - before.count;

    for (size_t i = 0; i < before.count; i++) {
        if ((room < bytes || slots < 2) && (owner == OWNERS || before.seen[i].owner == owner) &&
            may_go(&before, i, keep)) {
            room += before.seen[i].stored;
            slots++;
        } else {
            left[count++] = before.seen[i].number;
        }
    }
    assert_true(pool_make_room_of(pool, &share, bytes, keep) >= 0);
    after = look(pool);
    assert_int_equal(after.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(after.seen[i].number, left[i]);
        taken += after.seen[i].owner == owner ? after.seen[i].stored : 0;
    }
    pool_use(pool, &share, &usage);
    assert_true(owner == OWNERS || usage.bytes == taken);
}

/* ---- what the index finds ---- */

static int by_number(const void *one, const void *other)
{
    const struct seen *a = one, *b = other;

    return a->number < b->number ? -1 : 1;
}

static void check_in(const struct pool *pool, const struct all *all, const char *path,
                     enum pool_which which)
{
    struct seen wanted = {0};
    struct all found = {0};
    size_t count = 0;

    snprintf(wanted.path, sizeof(wanted.path), "%s", path);
    assert_int_equal(pool_each_in(pool, &(struct pool_share){.everyone = true}, path, which, note, &found), 0);
    for (size_t i = 1; i < found.count && which == POOL_WITH_SETTLED; i++)
        assert_true(found.seen[i].number < found.seen[i - 1].number);
    qsort(found.seen, found.count, sizeof(*found.seen), by_number);
    for (size_t i = 0; i < all->count; i++) {
        bool newest = true;

        for (size_t j = i + 1; j < all->count; j++)
            newest = newest && !same_path(&all->seen[i], &all->seen[j]);
        if (!same_folder(&wanted, &all->seen[i]) || (which == POOL_NEWEST && !newest) ||
            (which == POOL_WITH_SETTLED && !all->seen[i].settled))
            continue;
        assert_true(count < found.count);
        assert_int_equal(found.seen[count++].number, all->seen[i].number);
    }
    assert_int_equal(found.count, count);
}

static struct pool_key some_key(uint32_t number)
{
    struct pool_key key = key_of(number / OWNERS);

    key.owner = number % OWNERS;
    return key;
}

static void check_index(const struct pool *pool)
{
    static const char *paths[] = {"/f0/p0", "/f1/x", "/f2/p1", "/f0", "/none/p"};
    struct all all = look(pool), some;
    struct pool_version version;

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        for (int which = POOL_NEWEST; which <= POOL_WITH_SETTLED; which++)
            check_in(pool, &all, paths[i], which);
    for (uint32_t file = 0; file < OWNERS * (KEYS + 1); file++) {
        struct pool_key key = some_key(file);
        uint64_t newest = 0;

        for (size_t i = 0; i < all.count; i++)
            if (all.seen[i].file == file / OWNERS && all.seen[i].owner == file % OWNERS)
                newest = all.seen[i].number;
        version.number = 0;
        assert_int_equal(pool_newest(pool, &key, &version), newest == 0 ? -ENOENT : 0);
        assert_int_equal(version.number, newest);
    }
    for (size_t i = 0; i < all.count; i++) {
        assert_int_equal(pool_get(pool, all.seen[i].number, &version), 0);
        assert_int_equal(version.number, all.seen[i].number);
        assert_string_equal(version.attributes.path, all.seen[i].path);
        some.count = 0;
        assert_int_equal(pool_each_after(pool, all.seen[i].number, note, &some), 0);
        assert_int_equal(some.count, all.count - i - 1);
    }
    assert_int_equal(pool_get(pool, pool->newest + 1, &version), -ENOENT);
}

/* ---- lives ---- */

static const char *some_path(uint64_t *seed)
{
    static char path[32];

    snprintf(path, sizeof(path), "/f%u/p%u", (unsigned)below(seed, FOLDERS),
             (unsigned)below(seed, PATHS));
    return path;
}

static void commit(struct pool *pool, uint64_t *seed)
{
    struct pool_attributes attributes = {.path = some_path(seed),
                                         .job = below(seed, 4) == 0 ? "two" : "one",
                                         .size = 1 + below(seed, 3000),
                                         .settled = below(seed, 3) == 0};
    struct pool_key key = some_key(below(seed, OWNERS * KEYS));
    struct pool_draft *draft;
    char bytes[3000] = "";
    uint64_t number;

    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, attributes.size), 0);
    assert_int_equal(pool_commit(draft, &attributes, &number), 0);
}

static bool some_version(const struct pool *pool, uint64_t *seed, struct pool_version *version)
{
    struct all all = look(pool);

    return all.count > 0 &&
           pool_get(pool, all.seen[below(seed, all.count)].number, version) == 0;
}

static void step(struct pool *pool, uint64_t *seed)
{
    struct pool_version version;
    struct pool_key key = some_key(below(seed, OWNERS * KEYS));
    uint64_t number;

    switch (below(seed, 12)) {
    case 0:
        if (some_version(pool, seed, &version))
            assert_int_equal(pool_pin(pool, &version, below(seed, 3) == 0), 0);
        break;
    case 1:
        if (some_version(pool, seed, &version))
            assert_int_equal(pool_remove(pool, &version), 0);
        break;
    case 2:
        pool_rename(pool, &key, some_path(seed), below(seed, 3), &number);
        break;
    case 3:
        make_room(pool, below(seed, OWNERS + 1), (pool->data.free + below(seed, 12)) * PORTUS_POOL_UNIT,
                  1 + below(seed, 2) * below(seed, 4));
        break;
    default:
        if (pool->slots.free < 3) {
            make_room(pool, OWNERS, 0, 2);
            if (pool->slots.free < 3 && some_version(pool, seed, &version))
                assert_int_equal(pool_remove(pool, &version), 0);
        }
        commit(pool, seed);
    }
}

static void test_lives(void **state)
{
    char *base = aligned_alloc(4096, SIZE);
    struct pool *pool;

    assert_non_null(base);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    for (uint64_t life = 1; life <= 60; life++) {
        uint64_t seed = life * 77;

        image_make(base, SIZE, SLOTS);
        pool = image_open(base, SIZE);
        for (int i = 0; i < 400; i++) {
            step(pool, &seed);
            if (i % 20 == 0)
                check_index(pool);
            if (below(&seed, 60) == 0) {
                pool_close(pool);
                pool = image_open(base, SIZE);
            }
        }
        make_room(pool, OWNERS, UINT64_MAX, 1);
        check_index(pool);
        pool_close(pool);
    }
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lives)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
