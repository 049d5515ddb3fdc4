/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * catalogue.h -- the slots of a pool: how one is written, removed and judged
 */
#ifndef PORTUS_STORE_CATALOGUE_H
#define PORTUS_STORE_CATALOGUE_H

#include <stdbool.h>
#include <stdint.h>

#include "portus/layout.h"
#include "store/map.h"

enum slot_state {
    SLOT_FREE,
    SLOT_COMMITTED, /* both copies say so */
    SLOT_HALF,      /* the first does; the second was not written yet, or is damaged */
    SLOT_SECOND,    /* only the second does: the first is damaged */
    SLOT_DAMAGED,   /* neither */
};

/* Where a slot lies, copy 0 or 1. */
uint64_t slot_offset(const struct portus_pool_superblock *super, uint32_t slot, int copy);

uint64_t slot_word(const uint8_t uuid[16], uint32_t slot, uint64_t number);
uint32_t slot_crc(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_slot *line);
uint32_t marks_crc(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_marks *marks);

/* Whether the fields of a slot, committed or not, are as they were written. */
bool slot_fields_valid(const uint8_t uuid[16], uint32_t slot, const struct portus_pool_slot *line);

/* What two copies of a slot say together. */
enum slot_state slot_judge(const uint8_t uuid[16], uint32_t slot,
                           const struct portus_pool_slot copies[2]);

enum marks_state {
    MARKS_VALID,
    MARKS_HALF,    /* the first copy was written, the second not yet */
    MARKS_DAMAGED, /* one copy is damaged, or was being written */
    MARKS_LOST,    /* both are */
};

/* The marks of a committed slot; zero where none were set. Lost ones say: pinned. */
enum marks_state slot_marks(const uint8_t uuid[16], uint32_t slot, uint64_t number,
                            const struct portus_pool_slot copies[2],
                            struct portus_pool_marks *marks);

/*
 * Commits line (number, takes and body are set): what was written before and the fields
 * become persistent, then the word; then the second copy. *committed: whether it may
 * count as committed, error or not.
 */
int slot_commit(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                struct portus_pool_slot *line, bool *committed);

/* Writes one copy of a committed slot anew, without its marks. */
int slot_rewrite(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                 const struct portus_pool_slot *line, int copy);

/* Frees the slot: the second copy first, so that the first decides to the last. */
int slot_retire(struct map *map, const struct portus_pool_superblock *super, uint32_t slot);

/* Writes marks (all but its CRC is set) to both copies, one after the other. */
int slot_mark(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
              struct portus_pool_marks *marks);

/* The same where one of the copies that were read is damaged: that one first, so that never
 * both are. */
int slot_mend_marks(struct map *map, const struct portus_pool_superblock *super, uint32_t slot,
                    const struct portus_pool_slot copies[2], struct portus_pool_marks *marks);

/* --- superblocks --- */

/* Whether a page that was read begins with one, and its fields are possible in size bytes.
 * -EPROTONOSUPPORT: one of another version. */
int super_check(const uint8_t page[PORTUS_POOL_PAGE], uint64_t size);

/* Writes both copies, `first` before the other; each is persistent before the next. */
int super_write(struct map *map, struct portus_pool_superblock *super, int first);
uint64_t super_offset(int copy);

#endif
