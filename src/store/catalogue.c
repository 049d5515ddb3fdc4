/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * catalogue.c -- slots and superblocks
 *
 * The order of stores is all that makes a version whole or absent after a power cut:
 *
 *     commit   fields of A | word of A | fields of B | word of B       | = map_fence
 *     retire   word of B = 0 | word of A = 0
 *
 * So A valid: committed, whatever B says. A zero and B zero: free. A zero or invalid and
 * B valid: never a cut, so A was damaged, and B is what it was.
 */
#include "store/catalogue.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/copy.h"
#include "common/log.h"

/* ---- sums ---- */

static uint32_t begin_sum(const uint8_t uuid[16], uint32_t slot)
{
    uint8_t bytes[20];

    memcpy(bytes, uuid, 16);
    memcpy(bytes + 16, &slot, 4);
    return portus_crc32(0, bytes, sizeof(bytes));
}

uint64_t slot_word(const uint8_t uuid[16], uint32_t slot, uint64_t number)
{
    uint32_t crc = portus_crc32(begin_sum(uuid, slot), &number, sizeof(number));

    return number << 16 | ((crc ^ crc >> 16) & 0x7fff) | 0x8000;
}

uint32_t slot_crc(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_slot *line)
{
    size_t begin = offsetof(struct portus_pool_slot, number);

    return portus_crc32(begin_sum(uuid, slot), (const char *)line + begin,
                        offsetof(struct portus_pool_slot, crc) - begin);
}

uint32_t marks_crc(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_marks *marks)
{
    return portus_crc32(begin_sum(uuid, slot), marks, offsetof(struct portus_pool_marks, crc));
}

/* ---- slots ---- */

uint64_t slot_offset(const struct portus_pool_superblock *super, uint32_t slot, int copy)
{
    return (copy == 0 ? super->catalogue : super->second_catalogue) +
           (uint64_t)slot * sizeof(struct portus_pool_slot);
}

bool slot_fields_valid(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_slot *line)
{
    return line->number != 0 && line->number >> PORTUS_POOL_NUMBER_BITS == 0 &&
           line->crc == slot_crc(uuid, slot, line);
}

static bool valid(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_slot *line)
{
    return line->commit != 0 && line->number == line->commit >> 16 &&
           line->commit == slot_word(uuid, slot, line->number) &&
           slot_fields_valid(uuid, slot, line);
}

enum slot_state slot_judge(const uint8_t uuid[16], uint32_t slot,
                           const struct portus_pool_slot copies[2])
{
    size_t line = offsetof(struct portus_pool_slot, marks);

    if (copies[0].commit == 0 && copies[1].commit == 0)
        return SLOT_FREE;
    if (valid(uuid, slot, &copies[0]))
        return memcmp(&copies[0], &copies[1], line) == 0 ? SLOT_COMMITTED : SLOT_HALF;
    return valid(uuid, slot, &copies[1]) ? SLOT_SECOND : SLOT_DAMAGED;
}

/* Neither set nor never set. */
static bool marks_damaged(const uint8_t uuid[16], uint32_t slot,
                          const struct portus_pool_slot *line)
{
    static const struct portus_pool_marks none;

    return line->marks.crc != marks_crc(uuid, slot, &line->marks) &&
           memcmp(&line->marks, &none, sizeof(none)) != 0;
}

enum marks_state slot_marks(const uint8_t uuid[16], uint32_t slot, uint64_t number,
                            const struct portus_pool_slot copies[2],
                            struct portus_pool_marks *marks)
{
    static const struct portus_pool_marks none;
    bool found = false;
    int bad = 0;

    memset(marks, 0, sizeof(*marks));
    marks->number = number;
    for (int copy = 0; copy < 2; copy++) {
        const struct portus_pool_marks *line = &copies[copy].marks;

        if (marks_damaged(uuid, slot, &copies[copy])) {
            bad++;
        } else if (memcmp(line, &none, sizeof(none)) != 0 && line->number == number && !found) {
            *marks = *line;
            found = true;
        }
    }
    if (bad == 2)
        marks->flags = PORTUS_POOL_PINNED; /* rather kept than lost */
    if (bad > 0)
        return bad == 2 ? MARKS_LOST : MARKS_DAMAGED;
    if (found && memcmp(&copies[0].marks, &copies[1].marks, sizeof(none)) != 0)
        return MARKS_HALF;
    return MARKS_VALID;
}

int slot_rewrite(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                 const struct portus_pool_slot *line, int copy)
{
    uint64_t at = slot_offset(super, slot, copy);
    size_t begin = offsetof(struct portus_pool_slot, number);
    int error = map_write(map, at + begin, (const char *)line + begin,
                          offsetof(struct portus_pool_slot, marks) - begin);

    if (error == 0)
        error = map_fence(map);
    if (error == 0)
        error = map_store(map, at, line->commit);
    return error == 0 ? map_fence(map) : error;
}

int slot_commit(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                struct portus_pool_slot *line, bool *committed)
{
    uint64_t at = slot_offset(super, slot, 0);
    size_t begin = offsetof(struct portus_pool_slot, number);
    int error;

    *committed = false;
    line->zero = 0;
    line->crc = slot_crc(super->uuid, slot, line);
    line->commit = slot_word(super->uuid, slot, line->number);
    error = map_write(map, at + begin, (const char *)line + begin,
                      offsetof(struct portus_pool_slot, marks) - begin);
    if (error == 0)
        error = map_fence(map);
    if (error != 0)
        return error;
    *committed = true;
    error = map_store(map, at, line->commit);
    if (error == 0)
        error = map_fence(map);
    if (error != 0)
        return error;
    if (slot_rewrite(map, super, slot, line, 1) != 0)
        log_warn("%s: version %llu has no second copy of its slot: it is committed", map->path,
                 (unsigned long long)line->number);
    return 0;
}

int slot_retire(struct map *map, const struct portus_pool_superblock *super, uint32_t slot)
{
    int error = 0;

    for (int copy = 1; copy >= 0 && error == 0; copy--) {
        error = map_store(map, slot_offset(super, slot, copy), 0);
        if (error == 0)
            error = map_fence(map);
    }
    return error;
}

static int write_marks(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                       struct portus_pool_marks *marks, int first)
{
    int error = 0;

    marks->crc = marks_crc(super->uuid, slot, marks);
    for (int i = 0; i < 2 && error == 0; i++) {
        error = map_write(
            map, slot_offset(super, slot, first ^ i) + offsetof(struct portus_pool_slot, marks),
            marks, sizeof(*marks));
        if (error == 0)
            error = map_fence(map);
    }
    return error;
}

int slot_mark(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
              struct portus_pool_marks *marks)
{
    return write_marks(map, super, slot, marks, 0);
}

int slot_mend_marks(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                    const struct portus_pool_slot copies[2], struct portus_pool_marks *marks)
{
    return write_marks(map, super, slot, marks, !marks_damaged(super->uuid, slot, &copies[0]));
}

/* ---- superblocks ---- */

uint64_t super_offset(int copy)
{
    return copy == 0 ? 0 : PORTUS_POOL_SECOND;
}

int super_check(const uint8_t page[PORTUS_POOL_PAGE], uint64_t size)
{
    struct portus_pool_superblock super;
    uint64_t bytes;
    uint32_t crc;

    memcpy(&super, page, sizeof(super));
    if (super.magic != PORTUS_POOL_MAGIC || super.bytes < 64 || super.bytes > PORTUS_POOL_PAGE ||
        super.bytes % 8 != 0)
        return -EUCLEAN;
    memcpy(&crc, page + super.bytes - sizeof(crc), sizeof(crc));
    if (crc != portus_crc32(0, page, super.bytes - sizeof(crc)))
        return -EUCLEAN;
    if (super.version != PORTUS_POOL_VERSION)
        return -EPROTONOSUPPORT;
    bytes = super.slots * sizeof(struct portus_pool_slot);
    if (super.bytes != sizeof(super) || super.generation == 0 || super.slots == 0 ||
        super.slots > PORTUS_POOL_SLOTS || super.pool_bytes > size ||
        super.pool_bytes % PORTUS_POOL_PAGE != 0)
        return -EUCLEAN;
    if (super.catalogue < PORTUS_POOL_SECOND + PORTUS_POOL_PAGE || super.catalogue > size ||
        super.second_catalogue > size || super.data > size)
        return -EUCLEAN;
    if ((super.catalogue | super.second_catalogue | super.data) % PORTUS_POOL_PAGE != 0 ||
        super.second_catalogue < super.catalogue + bytes ||
        super.data < super.second_catalogue + bytes || super.data >= super.pool_bytes)
        return -EUCLEAN;
    return 0;
}

int super_write(struct map *map, struct portus_pool_superblock *super, int first)
{
    int error = 0;

    super->crc = portus_crc32(0, super, offsetof(struct portus_pool_superblock, crc));
    for (int i = 0; i < 2 && error == 0; i++) {
        error = map_write(map, super_offset(first ^ i), super, sizeof(*super));
        if (error == 0)
            error = map_fence(map);
    }
    return error;
}
