/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.h -- what a pool looks like in persistent memory
 *
 *   0        superblock, first copy         4 KiB
 *   2 MiB    superblock, second copy        4 KiB
 *   ...      catalogue, first copy          slots * 128 bytes
 *   ...      catalogue, second copy
 *   ...      data: bodies and bytes of versions, in units of 1 KiB, to the pool's end
 *
 * A version is a slot of the catalogue, its body, and the bytes that the body names.
 * It is committed by one 8-byte store, that of its slot's `commit` in the first copy.
 * Nothing says what is free: it is what no committed version names.
 *
 * All numbers are little-endian, all offsets count from the pool's start. A reader
 * believes none of them before it has checked it. docs/pool-format.md tells the rest.
 */
#ifndef PORTUS_LAYOUT_H
#define PORTUS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define PORTUS_POOL_MAGIC 0x4c4f4f5053555450ull /* "PTUSPOOL" */
#define PORTUS_POOL_VERSION 1u

#define PORTUS_POOL_LENDS (16u << 20)   /* least bytes of a file that is read from a pool */
#define PORTUS_POOL_PAGE 4096u          /* the parts of a pool begin at its multiples */
#define PORTUS_POOL_SECOND (2ull << 20) /* offset of the second superblock */
#define PORTUS_POOL_UNIT 1024u          /* data space is handed out in units of so many bytes */
#define PORTUS_POOL_EXTENT (1u << 20)   /* most bytes of an extent */
#define PORTUS_POOL_SLOTS (1u << 28)    /* most slots */
#define PORTUS_POOL_BODY (1u << 30)     /* most bytes of a body */
#define PORTUS_POOL_PATH 4096u          /* most bytes of a path or job, with the NUL */
#define PORTUS_POOL_HANDLE 128u         /* most bytes of a file handle */

/* Twice; the valid copy of the higher generation counts. */
struct portus_pool_superblock {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* of this structure, its CRC included: where to find it in any version */
    uint8_t uuid[16];
    uint64_t generation; /* one more with each change of this structure */
    uint64_t pool_bytes;
    uint64_t catalogue; /* offsets */
    uint64_t second_catalogue;
    uint64_t data;
    uint64_t slots;
    int64_t created; /* ns since 1970 */
    uint64_t reserved[4];
    uint32_t zero;
    uint32_t crc; /* CRC-32 of all before */
};

/*
 * commit: 0 is free, otherwise number << 16 | check. check is
 *
 *     crc = CRC-32 of {uuid, slot as 4 bytes, number as 8 bytes}
 *     ((crc ^ crc >> 16) & 0x7fff) | 0x8000
 *
 * so that a flipped bit makes neither a valid word nor a free one.
 *
 * The fields after it stay when a version is removed: their number is what tells, at
 * the next opening, which numbers were used.
 */
#define PORTUS_POOL_NUMBER_BITS 48

struct portus_pool_slot {
    uint64_t commit;
    uint64_t number;
    uint64_t takes; /* number of the version with the same extents that this one replaces; or 0 */
    uint64_t body;  /* offset */
    uint32_t body_bytes;
    uint32_t body_crc;
    uint64_t reserved[2];
    uint32_t zero;
    uint32_t crc; /* CRC-32 of {uuid, slot as 4 bytes} and of number to zero */

    /* The second line may change while the version lives. Of another number: not set yet. */
    struct portus_pool_marks {
        uint64_t number;
        uint32_t flags;
        uint32_t zero;
        uint64_t size; /* what the file was when it was drained, if PORTUS_POOL_STAMPED */
        int64_t mtime, ctime;
        uint64_t reserved[2];
        uint32_t zero_too;
        uint32_t crc; /* CRC-32 of {uuid, slot as 4 bytes} and of all before */
    } marks;
};

#define PORTUS_POOL_PINNED 1u
#define PORTUS_POOL_STAMPED 2u
#define PORTUS_POOL_DAMAGED 4u /* some of its bytes are known not to have their CRC */

/*
 * Followed by: the handle, then zeros to a multiple of 8; path and job, each with its
 * NUL, then zeros to a multiple of 8; the extents, in ascending order of offset.
 */
struct portus_pool_body {
    uint32_t magic;
    uint32_t bytes; /* of all of the body */
    uint64_t number;
    uint64_t size;        /* of the file: what no extent covers are zeros */
    int64_t mtime, ctime; /* ns since 1970 */
    uint32_t mode, uid, gid;
    uint32_t flags;
    uint8_t file_system[16];
    uint32_t handle_type, handle_bytes;
    uint32_t path_bytes, job_bytes; /* with the NUL */
    uint64_t extents;               /* how many */
    uint32_t owner; /* uid of the process that handed it over: to others it does not exist */
    uint32_t zero;
    uint64_t reserved[3];
};

#define PORTUS_POOL_BODY_MAGIC 0x59444f42u /* "BODY" */
#define PORTUS_POOL_SETTLED 1u
#define PORTUS_POOL_EARLY 2u /* committed before the file itself had all of it */

struct portus_pool_extent {
    uint64_t offset; /* in the file */
    uint64_t place;  /* in the pool, a multiple of PORTUS_POOL_UNIT; the units are its own */
    uint32_t length; /* bytes: 1 to PORTUS_POOL_EXTENT */
    uint32_t crc;    /* CRC-32 of them */
};

/*
 * What portusctl complete --extents writes for the shim, followed by the extents: where the
 * bytes of a file lie, as long as it is still this.
 */
struct portus_pool_lent {
    uint64_t magic;
    uint64_t device, inode, size;
    int64_t mtime, ctime; /* ns since 1970 */
    uint64_t extents;     /* how many */
};

#define PORTUS_POOL_LENT_MAGIC 0x544e454c53555450ull /* "PTUSLENT" */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a pool is little-endian");
_Static_assert(sizeof(struct portus_pool_superblock) == 128, "superblock");
_Static_assert(offsetof(struct portus_pool_superblock, crc) == 124, "superblock");
_Static_assert(sizeof(struct portus_pool_slot) == 128, "slot");
_Static_assert(offsetof(struct portus_pool_slot, crc) == 60, "slot");
_Static_assert(offsetof(struct portus_pool_slot, marks) == 64, "a line of its own");
_Static_assert(offsetof(struct portus_pool_marks, crc) == 60, "marks");
_Static_assert(sizeof(struct portus_pool_body) == 128, "body");
_Static_assert(sizeof(struct portus_pool_extent) == 24, "extent");

#endif
