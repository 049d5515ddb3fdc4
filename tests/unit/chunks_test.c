/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunks_test.c -- no byte of the ring is given out twice while it is in use
 *
 * A model beside the real thing: random takes, records, holds that come to nothing,
 * replays and growth; after each take its space must overlap nothing that is live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/chunks.h"

#define LIVE_MAX 4096

struct piece {
    uint64_t position, length, after; /* after: 0 while it is only held */
};

static struct piece live[LIVE_MAX];
static unsigned lives;

static void check_free(uint64_t position, uint64_t length)
{
    for (unsigned i = 0; i < lives; i++)
        assert_true(position + length <= live[i].position ||
                    position >= live[i].position + live[i].length);
}

static void add(uint64_t position, uint64_t length, uint64_t after)
{
    assert_true(lives < LIVE_MAX);
    live[lives++] = (struct piece){position, length, after};
}

static void replay(uint64_t tail)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < lives; i++)
        if (live[i].after == 0 || live[i].after > tail)
            live[kept++] = live[i];
    lives = kept;
}

/* Slots: kept over many steps, referred to by records meanwhile, given back in any order. */
#define SLOTS 8

static struct piece slots[SLOTS]; /* length 0: none; after: of the last record that refers to it */

static void take_slot(struct portus_chunks *chunks, struct piece *slot, uint64_t head,
                      uint64_t tail, uint64_t ring)
{
    uint32_t in_page = (uint32_t)rand() % 4096, before = chunks->free;
    uint64_t length = 1 + (uint64_t)rand() % (5 * PORTUS_CHUNK), taken, position;

    taken = portus_chunks_slot(chunks, in_page, length, head, tail, ring, &position);
    if (taken == 0)
        return;
    assert_true(taken <= length && position + taken <= ring && position % 4096 == in_page);
    assert_true(taken == length || (position + taken) % 4096 == 0);
    assert_true(chunks->free >= 4 || chunks->free >= before);
    check_free(position, taken);
    *slot = (struct piece){position, taken, 0};
    add(position, taken, 0);
}

static void refer(struct portus_chunks *chunks, struct piece *slot, uint64_t *head)
{
    uint64_t end = slot->position + slot->length;

    for (uint64_t at = slot->position; at < end; at = (at / PORTUS_CHUNK + 1) * PORTUS_CHUNK)
        portus_chunks_used(chunks, at, ++*head);
    slot->after = *head;
}

/* Its chunks are free one by one, as the records that refer to them are passed. */
static void give_slot(struct portus_chunks *chunks, struct piece *slot, uint64_t tail)
{
    uint64_t end = slot->position + slot->length, next, after = slot->after;
    unsigned i = 0;

    portus_chunks_give(chunks, slot->position, slot->length);
    while (live[i].position != slot->position || live[i].after != 0)
        i++;
    live[i] = live[--lives];
    if (after != 0)
        after -= (end - 1) / PORTUS_CHUNK - slot->position / PORTUS_CHUNK;
    for (uint64_t at = slot->position; at < end && after != 0; at = next, after++) {
        next = (at / PORTUS_CHUNK + 1) * PORTUS_CHUNK < end ? (at / PORTUS_CHUNK + 1) * PORTUS_CHUNK
                                                            : end;
        if (after > tail)
            add(at, next - at, after);
    }
    slot->length = 0;
}

static void random_use(void **state)
{
    for (unsigned seed = 1; seed <= 50; seed++) {
        struct portus_chunks chunks;
        uint64_t head = 0, tail = 0, ring = 4 * PORTUS_CHUNK, offset = 0, position;
        uint32_t taken;

        srand(seed);
        lives = 0;
        assert_int_equal(portus_chunks_open(&chunks), 0);
        for (unsigned step = 0; step < 5000; step++) {
            size_t length =
                rand() % 4 ? 1 + (size_t)rand() % 5000 : 1 + (size_t)rand() % (3 * PORTUS_CHUNK);

            if (rand() % 3 == 0)
                offset = (uint64_t)rand() * 7;
            struct piece *slot = &slots[rand() % SLOTS];

            switch (rand() % 9) {
            case 0: /* the drain goes on, or catches up */
                tail = rand() % 4 ? tail + (head - tail) / 2 : head;
                replay(tail);
                break;
            case 1: /* the ring grows; it becomes smaller only when it is empty */
                if (ring < 64 * PORTUS_CHUNK)
                    ring += PORTUS_CHUNK;
                if (head == tail && chunks.held == 0 && lives == 0)
                    ring = 4 * PORTUS_CHUNK;
                break;
            case 2:   /* space that is filled ahead and given up */
            case 3: { /* or becomes records */
                struct piece held[64];
                unsigned count = 0;
                bool use = rand() % 2;

                while (length > 0 && count < 64) {
                    taken =
                        portus_chunks_take(&chunks, offset, length, head, tail, ring, &position);
                    if (taken == 0)
                        break;
                    check_free(position, taken);
                    portus_chunks_hold(&chunks, position);
                    add(position, taken, 0);
                    held[count++] = (struct piece){position, taken, 0};
                    length -= taken;
                    offset += taken;
                }
                lives -= count;
                for (unsigned i = 0; i < count; i++) {
                    if (use) {
                        portus_chunks_used(&chunks, held[i].position, ++head);
                        add(held[i].position, held[i].length, head);
                    }
                    portus_chunks_unhold(&chunks, held[i].position);
                }
                break;
            }
            case 4:
                if (slot->length == 0)
                    take_slot(&chunks, slot, head, tail, ring);
                else if (rand() % 3 != 0)
                    refer(&chunks, slot, &head);
                else
                    give_slot(&chunks, slot, tail);
                break;
            default:
                taken = portus_chunks_take(&chunks, offset, length, head, tail, ring, &position);
                if (taken == 0)
                    break;
                assert_true(taken <= length && position + taken <= ring);
                assert_int_equal(position / PORTUS_CHUNK, (position + taken - 1) / PORTUS_CHUNK);
                assert_int_equal(position % 4096, offset % 4096);
                check_free(position, taken);
                portus_chunks_used(&chunks, position, ++head);
                add(position, taken, head);
                offset += taken;
            }
        }
        for (unsigned i = 0; i < SLOTS; i++)
            if (slots[i].length != 0)
                give_slot(&chunks, &slots[i], tail);
        assert_int_equal(chunks.held, 0);
        portus_chunks_close(&chunks);
    }
}

static void empty_ring_is_reused_from_its_start(void **state)
{
    struct portus_chunks chunks;
    uint64_t position, head = 0;

    assert_int_equal(portus_chunks_open(&chunks), 0);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(portus_chunks_take(&chunks, 0, 100, head, head, 8 * PORTUS_CHUNK, &position) >
                    0);
        assert_int_equal(position, 0);
        portus_chunks_used(&chunks, position, ++head);
    }
    portus_chunks_close(&chunks);
}

static void full_ring_gives_nothing(void **state)
{
    struct portus_chunks chunks;
    uint64_t position, head = 0;

    assert_int_equal(portus_chunks_open(&chunks), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(
            portus_chunks_take(&chunks, 0, PORTUS_CHUNK, head, 0, 4 * PORTUS_CHUNK, &position),
            PORTUS_CHUNK);
        portus_chunks_used(&chunks, position, ++head);
    }
    assert_int_equal(portus_chunks_take(&chunks, 0, 1, head, 0, 4 * PORTUS_CHUNK, &position), 0);
    portus_chunks_close(&chunks);
}

/* Large writes behind small ones, nowhere in step with the chunks: as torch.save makes them. */
static void little_is_left_unused(void **state)
{
    struct portus_chunks chunks;
    uint64_t position, head = 0, offset = 0, ring = 400 * PORTUS_CHUNK;

    srand(1);
    assert_int_equal(portus_chunks_open(&chunks), 0);
    for (unsigned i = 0; i < 80; i++) {
        size_t tensor = 3 * PORTUS_CHUNK + (size_t)rand() % (2 * PORTUS_CHUNK);

        /* The tensor is copied before what comes before it in the file. */
        for (size_t from = offset + 64, end = from + tensor; from < end;) {
            uint32_t taken =
                portus_chunks_take(&chunks, from, end - from, head, 0, ring, &position);
            assert_true(taken > 0);
            portus_chunks_used(&chunks, position, ++head);
            from += taken;
        }
        assert_true(portus_chunks_take(&chunks, offset, 64, head, 0, ring, &position) > 0);
        portus_chunks_used(&chunks, position, ++head);
        offset += 64 + tensor;
    }
    assert_true(chunks.taken * PORTUS_CHUNK < offset + offset / 20);
    portus_chunks_close(&chunks);
}

/* A save larger than the ring: room comes back as it is drained, not when all is. */
static void drained_room_comes_back(void **state)
{
    static uint64_t length[1 << 16];
    struct portus_chunks chunks;
    uint64_t position, head = 0, tail = 0, offset = 0, ring = 32 * PORTUS_CHUNK, full = 0;

    srand(1);
    assert_int_equal(portus_chunks_open(&chunks), 0);
    for (unsigned i = 0; i < 500; i++) {
        size_t tensor = 1 + (size_t)rand() % (5 * PORTUS_CHUNK);

        for (uint64_t end = offset + tensor; offset < end;) {
            uint32_t taken =
                portus_chunks_take(&chunks, offset, end - offset, head, tail, ring, &position);
            if (taken == 0) {
                assert_true(full > ring / 2);
                full -= length[tail++];
                continue;
            }
            length[head] = taken;
            full += taken;
            portus_chunks_used(&chunks, position, ++head);
            offset += taken;
        }
        offset += (uint64_t)rand() % PORTUS_CHUNK;
    }
    assert_true(tail > 0);
    portus_chunks_close(&chunks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use),
        cmocka_unit_test(empty_ring_is_reused_from_its_start),
        cmocka_unit_test(full_ring_gives_nothing),
        cmocka_unit_test(little_is_left_unused),
        cmocka_unit_test(drained_room_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
