/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_replay.h -- plays an operation's tape, cut after each store, and looks at what is left
 *
 * Lines that are not surely persistent are dropped, kept, or torn at 8 bytes. What a state may
 * be is in `allowed`; who includes this says how large a pool is (SIZE, grown LIMIT), and how many
 * combinations are tried (ALL_OF, SAMPLES).
 */
#ifndef POOL_REPLAY_H
#define POOL_REPLAY_H

#include "pool_tape.h"

#define LINE 64
#define LINES (LIMIT / LINE)
#define ALL_OF 4 /* lines up to which all combinations are tried */

/* ---- what must hold ---- */

static char *image; /* the memory that is opened; between checks: what is surely persistent */
static uint64_t states;

static struct {
    struct contents contents[40]; /* before, between the steps of the operation, after */
    unsigned count;
    uint64_t unreadable; /* a version that may be damaged, and is in none of contents; 0: none */
    uint32_t right;      /* CRC of its bytes */
    bool seen;           /* it was found */
    bool mends, mended;  /* it is repaired when the operation has returned; it has */
    bool may_refuse;     /* no pool is there yet, or no more */
    bool may_repair;     /* it changes superblocks or marks, where a torn line is damage */
    uint64_t sizes[2];   /* of the pool, before and after */
} allowed;

static bool is_allowed(const struct contents *contents)
{
    for (unsigned i = 0; i < allowed.count; i++)
        if (same_contents(contents, &allowed.contents[i]))
            return true;
    return false;
}

static int sum_others(const struct pool_version *version, void *argument)
{
    struct contents *contents = argument;
    char bytes[8192];

    if (version->number != allowed.unreadable)
        return sum_version(version, argument);
    /* Whatever is read of it is right. */
    if (pool_read(contents->pool, version, 0, bytes, version->attributes.size) == 0)
        assert_int_equal(portus_crc32(0, bytes, version->attributes.size), allowed.right);
    else
        assert_false(allowed.mended);
    contents->stored += version->stored;
    allowed.seen = true;
    return 0;
}

static struct contents contents_now(const struct pool *pool)
{
    struct contents contents = {.pool = pool};

    allowed.seen = false;
    pool_each(pool, sum_others, &contents);
    return contents;
}

static void check_pool(struct pool *pool, bool repaired)
{
    struct contents contents = contents_now(pool);
    struct pool_state look;

    assert_int_equal(contents.error, 0);
    assert_true(is_allowed(&contents));
    pool_look(pool, &look);
    assert_int_equal(look.damaged, 0);
    assert_true(look.size == allowed.sizes[0] || look.size == allowed.sizes[1]);
    if (!repaired || !allowed.may_repair)
        assert_int_equal(look.repaired, 0);
    assert_true(allowed.seen == (allowed.unreadable != 0));
    contents.count += allowed.seen; /* it has a slot */
    if (pool->map->writable)
        check_free(pool, &contents);
}

static void check_state(uint64_t *seed)
{
    struct pool *pool;
    uint64_t number;
    size_t written;
    int error;

    states++;
    if (below(seed, 8) == 0) { /* a reader sees the same, and changes nothing */
        error = image_open_by(&pool, image, LIMIT, false, &undo_backend, NULL);
        assert_true(error == 0 || (error == -EUCLEAN && allowed.may_refuse));
        if (error == 0) {
            check_pool(pool, true);
            pool_close(pool);
        }
        assert_int_equal(undo.count, 0);
    }
    error = image_open_by(&pool, image, LIMIT, true, &undo_backend, NULL);
    if (error != 0) {
        assert_int_equal(error, -EUCLEAN);
        assert_true(allowed.may_refuse);
        assert_int_equal(undo.count, 0);
        return;
    }
    check_pool(pool, true);
    pool_close(pool);
    /* Once more: nothing is left to be repaired. */
    written = undo.count;
    assert_int_equal(image_open_by(&pool, image, LIMIT, true, &undo_backend, NULL), 0);
    check_pool(pool, false);
    assert_int_equal(undo.count, written);
    if (below(seed, 16) == 0) { /* and it works */
        struct contents contents = contents_now(pool);
        size_t count = contents.count;

        error = image_commit(pool, 99, "/later", 99, 2000, &number);
        assert_true(error == 0 || (error == -ENOSPC && pool->data.free < 8));
        contents = contents_now(pool);
        assert_int_equal(contents.error, 0);
        assert_int_equal(contents.count, count + (error == 0));
        contents.count += allowed.seen;
        check_free(pool, &contents);
    }
    pool_close(pool);
    undo_all();
}

/* ---- replay ---- */

/* A line that was stored to since it was last surely persistent. */
struct line {
    uint64_t number;
    char now[LINE];     /* as the program sees it */
    char flushed[LINE]; /* as it was when it was flushed last */
    bool flush;
};

static struct line *lines; /* of the operation that is replayed */
static size_t lines_count;
static uint32_t *line_index; /* + 1; by line number */

static struct line *line_of(uint64_t number)
{
    if (line_index[number] == 0) {
        struct line *line = &lines[lines_count++];

        line_index[number] = lines_count;
        line->number = number;
        line->flush = false;
        memcpy(line->now, image + number * LINE, LINE);
    }
    return &lines[line_index[number] - 1];
}

static void replay_store(const struct event *event)
{
    for (uint64_t i = 0; i < event->length;) {
        uint64_t at = event->offset + i, left = LINE - at % LINE;
        uint64_t n = event->length - i < left ? event->length - i : left;

        memcpy(line_of(at / LINE)->now + at % LINE, tape.bytes + event->bytes + i, n);
        i += n;
    }
}

static void replay_flush(const struct event *event)
{
    for (uint64_t n = event->offset / LINE; n <= (event->offset + event->length - 1) / LINE; n++) {
        struct line *line;

        if (line_index[n] == 0)
            continue;
        line = &lines[line_index[n] - 1];
        memcpy(line->flushed, line->now, LINE);
        line->flush = true;
    }
}

static void replay_fence(void)
{
    size_t kept = 0;

    for (size_t i = 0; i < lines_count; i++) {
        struct line line = lines[i];

        if (line.flush)
            memcpy(image + line.number * LINE, line.flushed, LINE);
        line_index[line.number] = 0;
        if (memcmp(image + line.number * LINE, line.now, LINE) != 0) {
            line.flush = false;
            lines[kept++] = line;
            line_index[line.number] = kept;
        }
    }
    lines_count = kept;
}

/* What becomes of a line: 0 dropped, 1 kept, 2 torn. */
static void apply(const struct line *line, unsigned fate, uint64_t *seed)
{
    char *to = image + line->number * LINE;

    if (fate == 1)
        memcpy(to, line->now, LINE);
    for (int word = 0; fate == 2 && word < LINE; word += 8)
        if (below(seed, 2) == 0)
            memcpy(to + word, line->now + word, 8);
}

static void cut_here(uint64_t *seed)
{
    static char saved[4096][LINE];
    unsigned combinations = 1, samples = SAMPLES;

    assert_true(lines_count < 4096);
    for (size_t i = 0; i < lines_count; i++) {
        memcpy(saved[i], image + lines[i].number * LINE, LINE);
        combinations *= lines_count <= ALL_OF ? 3 : 1;
    }
    if (lines_count <= ALL_OF)
        samples = combinations;
    for (unsigned sample = 0; sample < samples; sample++) {
        unsigned rest = sample, mood = sample < 2 ? sample : below(seed, 5);

        for (size_t i = 0; i < lines_count; i++) {
            unsigned fate = rest % 3;

            if (lines_count > ALL_OF) {
                fate = mood > 2 ? below(seed, 3) : mood;
                if (mood < 3 && sample > 1 && below(seed, 8) == 0)
                    fate = below(seed, 3);
            }
            apply(&lines[i], fate, seed);
            rest /= 3;
        }
        check_state(seed);
        for (size_t i = 0; i < lines_count; i++)
            memcpy(image + lines[i].number * LINE, saved[i], LINE);
    }
}

static void replay(uint64_t *seed)
{
    lines_count = 0;
    for (size_t i = 0; i < tape.count; i++) {
        const struct event *event = &tape.events[i];

        if (event->kind == STORE) {
            replay_store(event);
            cut_here(seed);
        } else if (event->kind == FLUSH) {
            replay_flush(event);
        } else {
            replay_fence();
        }
    }
    /* It has returned: from now on the pool is as after it, whatever is not persistent yet. */
    allowed.contents[0] = allowed.contents[allowed.count - 1];
    allowed.count = 1;
    allowed.sizes[0] = allowed.sizes[1];
    allowed.may_refuse = false;
    allowed.mended = allowed.mends;
    cut_here(seed);
    for (size_t i = 0; i < lines_count; i++)
        line_index[lines[i].number] = 0;
}

#endif
