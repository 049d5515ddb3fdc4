/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_patch.h -- a pool that was changed by someone: opened, read, used
 *
 * Bytes are instructions: the first says which CRCs are made right afterwards, so that
 * impossible numbers get past them; then come patches {where (3 bytes), how many (1), what}
 * of a small pool with a few versions. Used by pool_fuzz.c and pool_damage_test.c.
 */
#ifndef POOL_PATCH_H
#define POOL_PATCH_H

#include "../unit/pool_image.h"
#include "store/scrub.h"

#define PATCH_SIZE (IMAGE_DATA + (128u << 10))
#define PATCH_BASE 0x7fu /* number of bytes that a patch has at most */

enum { MEND_SUPER = 1, MEND_SLOTS = 2, MEND_BODIES = 4, MEND_ONE_COPY = 8 };

/* A pool with versions of all kinds; sets sums of what it holds. */
static inline void patch_base(char *base, struct contents *contents)
{
    struct pool_version version = {0};
    struct pool_key key = key_of(2);
    struct pool *pool;
    uint64_t number, hole;

    memset(base, 0, PATCH_SIZE);
    image_make(base, PATCH_SIZE, 32);
    pool = image_open(base, PATCH_SIZE);
    assert_int_equal(image_commit(pool, 1, "/d/a", 1, 2000, &hole), 0);
    assert_int_equal(image_commit(pool, 2, "/d/b.tmp", 2, 3000, &number), 0);
    assert_int_equal(image_commit(pool, 3, "/d/c", 3, 1, &number), 0);
    version.number = hole;
    assert_int_equal(pool_remove(pool, &version), 0);
    assert_int_equal(pool_rename(pool, &key, "/d/b", POOL_SETTLED_AS_IT_WAS, &number), 0);
    pool->data.next = 0;
    pool->data.longest = 2; /* in pieces: several extents */
    assert_int_equal(image_commit(pool, 1, "/d/a", 4, 5000, &number), 0);
    version.number = number;
    version.place = pool_find(pool, number)->slot;
    assert_int_equal(pool_pin(pool, &version, true), 0);
    assert_int_equal(image_commit(pool, 4, "/e/empty", 5, 0, &number), 0);
    pool_close(pool);
    pool = image_open(base, PATCH_SIZE);
    *contents = contents_of(pool);
    assert_int_equal(contents->error, 0);
    assert_int_equal(contents->count, 4);
    pool_close(pool);
}

/* What may differ from the base: not the zeros between the superblocks. */
static inline void patch_restore(char *image, const char *base)
{
    memcpy(image, base, PORTUS_POOL_PAGE);
    memcpy(image + PORTUS_POOL_SECOND, base + PORTUS_POOL_SECOND, PATCH_SIZE - PORTUS_POOL_SECOND);
}

/* The parts of the image that are not zeros, one after the other. */
static inline char *patch_at(char *image, uint32_t where)
{
    where %= 256 + PATCH_SIZE - PORTUS_POOL_SECOND - PORTUS_POOL_PAGE;
    if (where < 256)
        return image + super_offset(where / 128) + where % 128;
    return image + PORTUS_POOL_SECOND + PORTUS_POOL_PAGE + where - 256;
}

static inline void patch_mend(char *image, unsigned what)
{
    struct portus_pool_superblock *super = (void *)image;
    struct portus_pool_superblock first = *super; /* for where things were */

    first.catalogue = PORTUS_POOL_SECOND + PORTUS_POOL_PAGE;
    first.second_catalogue = first.catalogue + PORTUS_POOL_PAGE;
    for (uint32_t slot = 0; slot < 32; slot++) {
        for (int copy = 0; copy < 2; copy++) {
            struct portus_pool_slot *line = (void *)(image + slot_offset(&first, slot, copy));

            if ((what & MEND_BODIES) && line->body < PATCH_SIZE &&
                line->body_bytes <= PATCH_SIZE - line->body)
                line->body_crc = portus_crc32(0, image + line->body, line->body_bytes);
            if (!(what & (MEND_SLOTS | MEND_BODIES)) || line->commit == 0)
                continue;
            line->crc = slot_crc(first.uuid, slot, line);
            line->commit = slot_word(first.uuid, slot, line->number);
            line->marks.crc = marks_crc(first.uuid, slot, &line->marks);
        }
        if (what & MEND_ONE_COPY)
            memcpy(image + slot_offset(&first, slot, 1), image + slot_offset(&first, slot, 0),
                   sizeof(struct portus_pool_slot));
    }
    for (int copy = 0; copy < 2 && (what & MEND_SUPER); copy++) {
        super = (void *)(image + super_offset(copy));
        super->crc = portus_crc32(0, super, offsetof(struct portus_pool_superblock, crc));
    }
}

static inline int patch_verify(const struct pool_version *version, void *pool)
{
    static char bytes[4096];
    uint64_t size = version->attributes.size;

    pool_verify(pool, version);
    pool_read(pool, version, 0, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
    if (size > sizeof(bytes))
        pool_read(pool, version, size - sizeof(bytes), bytes, sizeof(bytes));
    return 0;
}

/* What is free, named by versions, and held by damaged ones, is all there is. */
static inline void patch_count(const struct pool *pool)
{
    uint64_t units = pool->data.free, slots = pool->slots.free + pool->damaged_count;

    for (size_t i = 0; i < pool->count; i++) {
        units += pool->entries[i].dead ? 0 : pool->entries[i].units;
        slots += !pool->entries[i].dead;
    }
    for (size_t i = 0; i < pool->damaged_count; i++)
        units += pool->damaged[i].units;
    assert_int_equal(units, pool->data.units);
    assert_int_equal(slots, pool->slots.units);
}

static inline void patch_scrub(struct pool *pool)
{
    struct scrub *scrub;
    int more = 1;

    if (scrub_begin(&scrub, pool, 3) != 0)
        return;
    while (more == 1)
        more = scrub_step(scrub, 8192, NULL);
    scrub_end(scrub);
}

static inline void patch_make(char *image, const char *base, const uint8_t *data, size_t size)
{
    unsigned flags = size > 0 ? data[0] : 0;

    patch_restore(image, base);
    for (size_t i = 1; i + 4 < size;) {
        uint32_t where = data[i] | data[i + 1] << 8 | data[i + 2] << 16;
        size_t length = data[i + 3] & PATCH_BASE;

        for (i += 4; length > 0 && i < size; length--)
            *patch_at(image, where++) = data[i++];
    }
    patch_mend(image, flags);
}

static inline void patch_run(char *image, const char *base, const uint8_t *data, size_t size)
{
    struct pool_key key = key_of(2);
    struct pool *pool;
    uint64_t number;

    patch_make(image, base, data, size);
    for (int round = 0; round < 2; round++) {
        if (image_open_by(&pool, image, PATCH_SIZE, false, &image_backend, NULL) == 0) {
            pool_each(pool, patch_verify, pool);
            pool_close(pool);
        }
        if (image_open_by(&pool, image, PATCH_SIZE, true, &image_backend, NULL) != 0)
            return;
        patch_count(pool);
        pool_each(pool, patch_verify, pool);
        patch_scrub(pool);
        patch_count(pool);
        image_commit(pool, 5, "/d/new", 9, 3000, &number);
        pool_rename(pool, &key, "/d/other", POOL_SETTLED_AS_IT_WAS, &number);
        pool_make_room(pool, 100 << 10, 1);
        if (round == 1)
            pool_remove_damaged(pool);
        pool_close(pool);
    }
}

#endif
