/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map.c -- guarded, checked access to a pool's memory
 *
 * Not here: opening and mapping (medium.c), what the bytes mean (catalogue.c, body.c).
 */
#include "store/map.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "common/copy.h"
#include "common/log.h"
#include "portus/layout.h"
#include "store/guard.h"

#define FAULT_LINES 8

/* Whether an access may be tried. */
static int check(struct map *map, uint64_t offset, uint64_t length, bool writing)
{
    if (offset > map->size || length > map->size - offset) {
        log_error("%s: %llu bytes at %llu are outside of the pool", map->path,
                  (unsigned long long)length, (unsigned long long)offset);
        return -EUCLEAN;
    }
    if (map->fetch != NULL && (offset > map->local || length > map->local - offset))
        return -EUCLEAN; /* only bytes of extents are beyond: map_read_crc */
    if (!writing)
        return 0;
    return map->writable ? map->failed : -EROFS;
}

/* After a SIGBUS. */
static int refused(struct map *map, const char *what)
{
    uintptr_t at = guard_address(), base = (uintptr_t)map->base;

    if (at < base || at - base >= map->size) {
        log_error("%s: the bytes to be stored cannot be read (SIGBUS at %p)", map->path,
                  (void *)at);
        return -EFAULT;
    }
    if (map->faults++ < FAULT_LINES)
        log_error("%s: cannot be %s at offset %llu: a bad block, or the file was cut%s", map->path,
                  what, (unsigned long long)(at - base),
                  map->faults == FAULT_LINES ? "; more of this is not told" : "");
    return -EIO;
}

/* A function's access that may raise SIGBUS, in its own frame as sigsetjmp wants it. */
#define GUARDED(map, what, access)                                                                 \
    do {                                                                                           \
        sigjmp_buf here_;                                                                          \
        if (sigsetjmp(here_, 0) != 0)                                                              \
            return refused(map, what);                                                             \
        guard_enter(&here_);                                                                       \
        access;                                                                                    \
        guard_leave();                                                                             \
    } while (0)

int map_read(struct map *map, uint64_t offset, void *to, size_t length)
{
    int error = check(map, offset, length, false);

    if (error != 0)
        return error;
    GUARDED(map, "read", memcpy(to, map->base + offset, length));
    return 0;
}

int map_load(struct map *map, uint64_t offset, uint64_t *value)
{
    int error = check(map, offset, 8, false);

    if (error != 0)
        return error;
    GUARDED(map, "read",
            *value = atomic_load_explicit((_Atomic uint64_t *)(void *)(map->base + offset),
                                          memory_order_acquire));
    return 0;
}

/* What comes from elsewhere is checked here, like all else. */
static int fetch_crc(struct map *map, uint64_t offset, void *to, size_t length, uint32_t *crc)
{
    static __thread char piece[PORTUS_POOL_EXTENT];
    char *into = to != NULL ? to : piece;
    int error =
        to == NULL && length > sizeof(piece) ? -EUCLEAN : map->fetch(map, offset, into, length);

    if (error == 0)
        *crc = portus_crc32(*crc, into, length);
    return error;
}

int map_read_crc(struct map *map, uint64_t offset, void *to, size_t length, uint32_t *crc)
{
    int error;

    if (map->fetch != NULL && offset >= map->local)
        return fetch_crc(map, offset, to, length, crc);
    error = check(map, offset, length, false);
    if (error != 0)
        return error;
    GUARDED(map, "read",
            *crc = to == NULL ? portus_crc32(*crc, map->base + offset, length)
                              : portus_copy_crc(to, map->base + offset, length, *crc));
    return 0;
}

int map_write(struct map *map, uint64_t offset, const void *from, size_t length)
{
    int error = check(map, offset, length, true);

    if (error != 0 || length == 0)
        return error;
    GUARDED(map, "written", map->backend->copy(map->self, map->base + offset, from, length);
            map->backend->flush(map->self, map->base + offset, length));
    return 0;
}

int map_write_crc(struct map *map, uint64_t offset, const void *from, size_t length, uint32_t *crc)
{
    int error = check(map, offset, length, true);

    if (error != 0 || length == 0)
        return error;
    GUARDED(map, "written",
            *crc = map->backend->copy_crc(map->self, map->base + offset, from, length, *crc);
            map->backend->flush(map->self, map->base + offset, length));
    return 0;
}

int map_landed(struct map *map, uint64_t offset, size_t length, uint32_t *crc)
{
    int error = check(map, offset, length, true);

    if (error != 0)
        return error;
    GUARDED(map, "read", *crc = portus_crc32(*crc, map->base + offset, length);
            map->backend->flush(map->self, map->base + offset, length));
    return 0;
}

int map_store(struct map *map, uint64_t offset, uint64_t value)
{
    int error = check(map, offset, 8, true);

    if (error != 0)
        return error;
    GUARDED(map, "written",
            map->backend->store(map->self, (uint64_t *)(void *)(map->base + offset), value);
            map->backend->flush(map->self, map->base + offset, 8));
    return 0;
}

int map_fence(struct map *map)
{
    int error;

    if (map->failed != 0)
        return map->failed;
    error = map->backend->fence(map->self);
    if (error != 0) {
        log_error("%s: what was written cannot be made durable: %s: the pool is read-only from now "
                  "on",
                  map->path, strerror(-error));
        map->failed = -EIO;
    }
    return map->failed;
}
