/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map.h -- a pool's memory: the only way to reach it
 *
 * Everything goes by offset and is checked against the size; an access that the
 * memory refuses (a bad block, a file that was cut) returns -EIO with a line, not
 * SIGBUS. What is written counts as persistent only after the next map_fence.
 *
 * The functions that store and persist stand in a table, so that a test can put its
 * own in their place and see the order of things.
 */
#ifndef PORTUS_STORE_MAP_H
#define PORTUS_STORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* from NULL: zeros. flush begins to make a range persistent, fence waits for it. */
struct map_backend {
    void (*copy)(void *self, char *to, const void *from, size_t length);
    uint32_t (*copy_crc)(void *self, char *to, const void *from, size_t length, uint32_t crc);
    void (*store)(void *self, uint64_t *to, uint64_t value);
    void (*flush)(void *self, char *at, size_t length);
    int (*fence)(void *self);
};

struct map {
    char *base;
    uint64_t size; /* bytes that are mapped */
    const struct map_backend *backend;
    void *self;
    bool writable, durable;
    int failed; /* -EIO: the kernel could not write it back, nothing is written any more */
    const char *kind;
    char path[256]; /* for people */
    unsigned faults;
    struct medium *medium; /* what is mapped; NULL: the caller's memory */

    /* Of a pool that is not in reach: base has `local` bytes, fetch brings others. */
    uint64_t local;
    int (*fetch)(struct map *map, uint64_t offset, void *to, size_t length);
    void (*end)(struct map *map);
};

/* Maps all of a file or devdax device; writable: locks it (-EBUSY). */
int map_open(struct map **out, const char *path, bool writable);

/*
 * The same for a pool to be made: a file of size bytes that are all zero, with blocks
 * for them, or a device. fresh: whether it reads as zeros. A new file stands beside path
 * until map_publish. An existing one is refused (-EEXIST) if it is not empty, unless force.
 */
int map_create(struct map **out, const char *path, uint64_t size, bool force, bool *fresh);
int map_publish(struct map *map);

/* Memory of the caller's, for tests; size may grow up to limit. */
int map_memory(struct map **out, char *base, uint64_t size, uint64_t limit,
               const struct map_backend *backend, void *self);

void map_close(struct map *map);

/* Makes it size bytes, with blocks for them. -EFBIG: a device is no larger. */
int map_extend(struct map *map, uint64_t size);

/* Cuts a file to size bytes; what was beyond is not needed any more. */
int map_cut(struct map *map, uint64_t size);

int map_read(struct map *map, uint64_t offset, void *to, size_t length);
int map_load(struct map *map, uint64_t offset, uint64_t *value);

/* The processor may fetch what is there, which will be read soon. */
static inline void map_prefetch(const struct map *map, uint64_t offset)
{
    for (unsigned i = 0; i < 4 && offset < map->size; i++, offset += 64)
        __builtin_prefetch(map->base + offset);
}

/* Continues *crc over length bytes (of a pool that is not in reach: PORTUS_POOL_EXTENT at most),
 * which go to `to` on the way unless that is NULL. */
int map_read_crc(struct map *map, uint64_t offset, void *to, size_t length, uint32_t *crc);

/* from NULL: zeros. -EFAULT: from cannot be read. */
int map_write(struct map *map, uint64_t offset, const void *from, size_t length);
int map_write_crc(struct map *map, uint64_t offset, const void *from, size_t length, uint32_t *crc);

/* What a device has written there becomes persistent, and is summed up. */
int map_landed(struct map *map, uint64_t offset, size_t length, uint32_t *crc);

/* Whether its memory is a device's, so that another device may write to it as long as it is open.
 */
bool map_fixed(const struct map *map);

/* One 8-byte store that is never seen in part; offset is a multiple of 8. */
int map_store(struct map *map, uint64_t offset, uint64_t value);

/* What was written before is persistent when it returns. -EIO: no longer written to. */
int map_fence(struct map *map);

/* The open file or device; -1: memory of the caller's. */
int map_descriptor(const struct map *map);

/* Whether what a device directory of sysfs belongs to keeps its bytes without power. */
bool map_region_durable(const char *directory);

#endif
