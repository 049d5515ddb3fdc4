/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * medium.c -- opens, locks and maps what a pool lies on: a file or a devdax device
 *
 * Not here: access to it (map.c).
 *
 * libpmem2 maps and says what persisting takes. Where that is msync (the page cache), it
 * is called from here, because libpmem2 ends the process when msync fails: ranges are
 * gathered by flush and synced by fence, as cache lines would be.
 *
 * What is called "dax" in sysfs may be volatile memory (CXL, memory set aside at boot):
 * only an nd region with a persistence domain is durable.
 */
#include <errno.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/copy.h"
#include "common/log.h"
#include "portus/layout.h"
#include "store/guard.h"
#include "store/map.h"

#define RANGES 32

struct range {
    uintptr_t begin, end;
};

struct medium {
    int fd;
    bool device;
    struct pmem2_map *mapped; /* NULL: memory of the caller's */
    pmem2_flush_fn flush;
    pmem2_drain_fn drain;
    struct range ranges[RANGES]; /* written, not synced yet */
    unsigned ranges_used;
    uint64_t limit;
    char target[PATH_MAX], beside[PATH_MAX]; /* a new file stands beside until it is whole */
};

/* ---- what persists ---- */

static void copy(void *self, char *to, const void *from, size_t length)
{
    if (from == NULL)
        memset(to, 0, length);
    else
        portus_copy(to, from, length);
}

static uint32_t copy_crc(void *self, char *to, const void *from, size_t length, uint32_t crc)
{
    return portus_copy_crc(to, from, length, crc);
}

static void store(void *self, uint64_t *to, uint64_t value)
{
    atomic_store_explicit((_Atomic uint64_t *)to, value, memory_order_release);
}

static void flush_lines(void *self, char *at, size_t length)
{
    ((struct medium *)self)->flush(at, length);
}

static int fence_lines(void *self)
{
    ((struct medium *)self)->drain();
    return 0;
}

static void gather(void *self, char *at, size_t length)
{
    struct medium *medium = self;
    uintptr_t begin = (uintptr_t)at & -(uintptr_t)PORTUS_POOL_PAGE;
    uintptr_t end = ((uintptr_t)at + length + PORTUS_POOL_PAGE - 1) & -(uintptr_t)PORTUS_POOL_PAGE;
    struct range *range = &medium->ranges[medium->ranges_used];

    for (unsigned i = 0; i < medium->ranges_used; i++) {
        if (begin <= medium->ranges[i].end && end >= medium->ranges[i].begin) {
            range = &medium->ranges[i];
            break;
        }
    }
    if (range == &medium->ranges[RANGES])
        range--; /* pages between that are clean cost nothing */
    else if (range == &medium->ranges[medium->ranges_used])
        *range = (struct range){begin, end}, medium->ranges_used++;
    range->begin = begin < range->begin ? begin : range->begin;
    range->end = end > range->end ? end : range->end;
}

static int sync_ranges(void *self)
{
    struct medium *medium = self;
    int error = 0;

    for (unsigned i = 0; i < medium->ranges_used; i++) {
        const struct range *range = &medium->ranges[i];

        if (msync((void *)range->begin, range->end - range->begin, MS_SYNC) != 0)
            error = -errno;
    }
    medium->ranges_used = 0;
    return error;
}

static const struct map_backend lines = {copy, copy_crc, store, flush_lines, fence_lines};
static const struct map_backend pages = {copy, copy_crc, store, gather, sync_ranges};

/* ---- what it is ---- */

bool map_region_durable(const char *directory)
{
    char path[PATH_MAX], file[PATH_MAX + 32], domain[32] = "";

    if (realpath(directory, path) == NULL)
        return false;
    for (char *end = path + strlen(path); end > path; end = strrchr(path, '/')) {
        FILE *stream;

        *end = '\0';
        snprintf(file, sizeof(file), "%s/persistence_domain", path);
        stream = fopen(file, "re");
        if (stream == NULL)
            continue;
        if (fgets(domain, sizeof(domain), stream) == NULL)
            domain[0] = '\0';
        fclose(stream);
        domain[strcspn(domain, "\n")] = '\0';
        return strcmp(domain, "cpu_cache") == 0 || strcmp(domain, "memory_controller") == 0;
    }
    return false;
}

static void judge(struct map *map, const struct stat *status)
{
    char directory[64];

    if (map->medium->device) {
        snprintf(directory, sizeof(directory), "/sys/dev/char/%u:%u", major(status->st_rdev),
                 minor(status->st_rdev));
        map->kind = "devdax";
        map->durable = map_region_durable(directory);
        if (!map->durable)
            log_warn("%s: volatile memory, or not known to keep its bytes: the pool is empty after "
                     "a power cut",
                     map->path);
    } else {
        map->durable = map->backend == &lines;
        map->kind = map->durable ? "fsdax" : "file";
    }
}

/* ---- mapping ---- */

static int fail(const struct map *map, const char *what, int error)
{
    log_error("%s: %s: %s", map->path, what, strerror(error));
    return -error;
}

/* Maps size bytes in place of what is mapped. */
static int map_bytes(struct map *map, uint64_t size)
{
    struct pmem2_source *source = NULL;
    struct pmem2_config *config = NULL;
    struct pmem2_map *mapped = NULL;
    struct medium *medium = map->medium;
    int error;

    unsetenv("PMEM2_FORCE_GRANULARITY"); /* it would take the flushes away */
    error = pmem2_source_from_fd(&source, medium->fd);
    if (error == 0)
        error = pmem2_config_new(&config);
    if (error == 0)
        error = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
    if (error == 0)
        error = pmem2_config_set_length(config, size);
    if (error == 0 && !map->writable)
        error = pmem2_config_set_protection(config, PMEM2_PROT_READ);
    if (error == 0)
        error = pmem2_map_new(&mapped, config, source);
    if (error != 0) {
        log_error("%s: cannot be mapped: %s", map->path, pmem2_errormsg());
        error = error > PMEM2_E_UNKNOWN ? error : -EINVAL; /* -errno, or a code of its own */
    }
    if (config != NULL)
        pmem2_config_delete(&config);
    if (source != NULL)
        pmem2_source_delete(&source);
    if (error != 0)
        return error;
    if (medium->mapped != NULL)
        pmem2_map_delete(&medium->mapped);
    medium->mapped = mapped;
    medium->flush = pmem2_get_flush_fn(mapped);
    medium->drain = pmem2_get_drain_fn(mapped);
    map->base = pmem2_map_get_address(mapped);
    map->size = size;
    map->backend =
        pmem2_map_get_store_granularity(mapped) == PMEM2_GRANULARITY_PAGE ? &pages : &lines;
    map->self = medium;
    return 0;
}

static int device_size(struct map *map, uint64_t *size)
{
    struct pmem2_source *source;
    size_t bytes = 0;
    int error = pmem2_source_from_fd(&source, map->medium->fd);

    if (error == 0) {
        error = pmem2_source_size(source, &bytes);
        pmem2_source_delete(&source);
    }
    if (error != 0) {
        log_error("%s: its size is not known: %s", map->path, pmem2_errormsg());
        return -EINVAL;
    }
    *size = bytes;
    return 0;
}

static int make(struct map **out, const char *path, bool writable)
{
    struct map *map = calloc(1, sizeof(*map));
    struct medium *medium = calloc(1, sizeof(*medium));
    int error;

    if (map == NULL || medium == NULL) {
        free(map);
        free(medium);
        return -ENOMEM;
    }
    medium->fd = -1;
    map->medium = medium;
    map->writable = writable;
    snprintf(map->path, sizeof(map->path), "%s", path);
    error = guard_install();
    if (error != 0) {
        map_close(map);
        return error;
    }
    *out = map;
    return 0;
}

void map_close(struct map *map)
{
    if (map == NULL)
        return;
    if (map->end != NULL)
        map->end(map);
    if (map->medium->mapped != NULL)
        pmem2_map_delete(&map->medium->mapped);
    if (map->medium->beside[0] != '\0')
        unlink(map->medium->beside);
    if (map->medium->fd >= 0)
        close(map->medium->fd);
    free(map->medium);
    free(map);
}

/* Opens path, tells what it is, and locks it for a writer. */
static int take(struct map *map, const char *path, int flags, struct stat *status)
{
    struct medium *medium = map->medium;

    medium->fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
    if (medium->fd < 0)
        return fail(map, "cannot be opened", errno);
    if (fstat(medium->fd, status) != 0)
        return fail(map, "fstat", errno);
    medium->device = S_ISCHR(status->st_mode);
    if (!medium->device && !S_ISREG(status->st_mode)) {
        log_error("%s: neither a file nor a devdax device: no pool", map->path);
        return -EINVAL;
    }
    if (map->writable && flock(medium->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return fail(map, "flock", errno);
        log_error("%s: another process writes this pool", map->path);
        return -EBUSY;
    }
    return 0;
}

int map_open(struct map **out, const char *path, bool writable)
{
    struct stat status;
    struct map *map;
    uint64_t size;
    int error = make(&map, path, writable);

    if (error != 0)
        return error;
    error = take(map, path, writable ? O_RDWR : O_RDONLY, &status);
    if (error == 0) {
        size = (uint64_t)status.st_size & -(uint64_t)PORTUS_POOL_PAGE;
        if (map->medium->device)
            error = device_size(map, &size);
    }
    if (error == 0 && size < PORTUS_POOL_SECOND + PORTUS_POOL_PAGE) {
        log_error("%s: too short to be a pool", map->path);
        error = -EUCLEAN;
    }
    if (error == 0)
        error = map_bytes(map, size);
    if (error != 0) {
        map_close(map);
        return error;
    }
    judge(map, &status);
    *out = map;
    return 0;
}

/* ---- making ---- */

/* Blocks for all of the file: without them a full disk is a SIGBUS later. */
static int reserve(struct map *map, uint64_t from, uint64_t size)
{
    int result;

    do
        result = fallocate(map->medium->fd, 0, from, size - from);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : fail(map, "no blocks for the pool", errno);
}

/* What stands at path already; -ENOENT: nothing. */
static int take_existing(struct map *map, const char *path, bool force, bool *emptied)
{
    struct stat status;
    int error;

    if (stat(path, &status) != 0)
        return errno == ENOENT ? -ENOENT : fail(map, "stat", errno);
    error = take(map, path, O_RDWR, &status);
    if (error != 0 || map->medium->device)
        return error;
    if (status.st_size != 0 && !force) {
        log_error("%s: exists and is not empty: left as it is", map->path);
        return -EEXIST;
    }
    if (ftruncate(map->medium->fd, 0) != 0)
        return fail(map, "ftruncate", errno);
    *emptied = true;
    return 0;
}

static int take_new(struct map *map, const char *path)
{
    struct medium *medium = map->medium;
    struct stat status;
    int error, length = snprintf(medium->beside, sizeof(medium->beside), "%s.portus-new", path);

    snprintf(medium->target, sizeof(medium->target), "%s", path);
    if (length >= (int)sizeof(medium->beside)) {
        medium->beside[0] = '\0';
        return fail(map, "cannot be made", ENAMETOOLONG);
    }
    error = take(map, medium->beside, O_RDWR | O_CREAT | O_NOFOLLOW, &status);
    if (error != 0)
        medium->beside[0] = '\0'; /* not this process's */
    else if (ftruncate(medium->fd, 0) != 0)
        error = fail(map, "ftruncate", errno);
    return error;
}

int map_create(struct map **out, const char *path, uint64_t size, bool force, bool *fresh)
{
    struct stat status;
    struct map *map;
    bool emptied = false;
    uint64_t bytes = 0;
    int error = make(&map, path, true);

    if (error != 0)
        return error;
    error = take_existing(map, path, force, &emptied);
    if (error == -ENOENT) {
        error = take_new(map, path);
        emptied = true;
    }
    if (error == 0 && map->medium->device) {
        error = device_size(map, &bytes);
        if (error == 0 && size > bytes) {
            log_error("%s: has %llu bytes, not %llu", map->path, (unsigned long long)bytes,
                      (unsigned long long)size);
            error = -EFBIG;
        }
    } else if (error == 0) {
        bytes = size & -(uint64_t)PORTUS_POOL_PAGE;
        if (bytes < PORTUS_POOL_SECOND + PORTUS_POOL_PAGE) {
            log_error("%s: %llu bytes are too few for a pool", map->path, (unsigned long long)size);
            error = -EINVAL;
        } else {
            error = reserve(map, 0, bytes);
        }
    }
    if (error == 0)
        error = map_bytes(map, bytes);
    if (error == 0 && fstat(map->medium->fd, &status) != 0)
        error = fail(map, "fstat", errno);
    if (error != 0) {
        map_close(map);
        return error;
    }
    judge(map, &status);
    *fresh = emptied;
    *out = map;
    return 0;
}

int map_publish(struct map *map)
{
    struct medium *medium = map->medium;
    char *slash;
    int fd;

    /* Its length and blocks are the file system's: not covered by syncs of its bytes. */
    if (medium->fd >= 0 && !medium->device && fsync(medium->fd) != 0)
        return fail(map, "fsync", errno);
    if (medium->beside[0] == '\0')
        return 0;
    if (renameat2(AT_FDCWD, medium->beside, AT_FDCWD, medium->target, RENAME_NOREPLACE) != 0 &&
        link(medium->beside, medium->target) != 0)
        return fail(map, "cannot get its name", errno);
    unlink(medium->beside); /* after a link */
    medium->beside[0] = '\0';
    slash = strrchr(medium->target, '/');
    if (slash != NULL)
        slash[1] = '\0';
    fd = open(slash != NULL ? medium->target : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        log_warn("%s: its directory could not be synced: %s", map->path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return 0;
}

int map_memory(struct map **out, char *base, uint64_t size, uint64_t limit,
               const struct map_backend *backend, void *self)
{
    struct map *map;
    int error = make(&map, "memory", true);

    if (error != 0)
        return error;
    map->base = base;
    map->size = size;
    map->backend = backend;
    map->self = self;
    map->kind = "memory";
    map->medium->limit = limit;
    *out = map;
    return 0;
}

int map_descriptor(const struct map *map)
{
    return map->medium->fd;
}

bool map_fixed(const struct map *map)
{
    return map->medium->device;
}

int map_extend(struct map *map, uint64_t size)
{
    struct medium *medium = map->medium;
    struct stat status;
    uint64_t before = 0;
    int error;

    if (size <= map->size)
        return 0;
    if (medium->device || medium->mapped == NULL) {
        if (size > (medium->device ? 0 : medium->limit)) {
            log_error("%s: has no more than %llu bytes", map->path, (unsigned long long)map->size);
            return -EFBIG;
        }
        map->size = size;
        return 0;
    }
    error = map_fence(map); /* what was gathered belongs to the old mapping */
    if (error != 0)
        return error;
    if (fstat(medium->fd, &status) == 0)
        before = status.st_size;
    if (before < size)
        error = reserve(map, before, size);
    if (error == 0 && fsync(medium->fd) != 0)
        error = fail(map, "fsync", errno);
    return error != 0 ? error : map_bytes(map, size);
}

int map_cut(struct map *map, uint64_t size)
{
    struct medium *medium = map->medium;
    int error;

    if (medium->device || medium->mapped == NULL)
        return 0;
    error = map_fence(map);
    if (error == 0)
        error = map_bytes(map, size);
    if (error == 0 && ftruncate(medium->fd, (off_t)size) != 0)
        log_warn("%s: is smaller now, but its file could not be cut: %s", map->path,
                 strerror(errno));
    return error;
}
