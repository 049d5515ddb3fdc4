// SPDX-License-Identifier: BSD-3-Clause
/*
 * pool.c -- times of the pool by itself, against a memcpy and a read of the same bytes
 *
 *     pool fill POOL N             N objects of 1 KiB, a hundred in each directory
 *     pool open POOL ROUNDS        recovers the pool
 *     pool change POOL ROUNDS      keeps files of it anew, as portusd does: looks for the file and
 * its directory, makes room by what is superseded, commits, renames pool pull POOL FILE ROUNDS
 * copies FILE into the pool and commits, and a memcpy thread fills the same bytes of the pool; then
 * back into memory pool small POOL ROUNDS       commits of 1 MiB
 *
 * Prints a line of JSON: lists of seconds, of the wall clock and (_cpu) of the thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/copy.h"
#include "common/log.h"
#include "store/pool.h"
#include "store/pool_private.h"

#define PIECE (1u << 20) /* as portusd */
#define MOST 64

struct clock {
    double wall, thread;
};

struct list {
    const char *name;
    double wall[MOST], thread[MOST];
    unsigned count;
};

static void need(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "pool: %s: %s\n", what, strerror(error < 0 ? -error : errno));
    exit(1);
}

static double seconds(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct clock now(void)
{
    return (struct clock){seconds(CLOCK_MONOTONIC), seconds(CLOCK_THREAD_CPUTIME_ID)};
}

static void note(struct list *list, struct clock since)
{
    struct clock then = now();

    if (list->count == MOST)
        return;
    list->wall[list->count] = then.wall - since.wall;
    list->thread[list->count++] = then.thread - since.thread;
}

static void print_one(const char *name, const char *more, const double *values, unsigned count)
{
    printf(", \"%s%s\": [", name, more);
    for (unsigned i = 0; i < count; i++)
        printf("%s%.9f", i > 0 ? ", " : "", values[i]);
    printf("]");
}

static void print(const struct list *list)
{
    print_one(list->name, "", list->wall, list->count);
    print_one(list->name, "_cpu", list->thread, list->count);
}

static unsigned rounds_of(const char *text)
{
    unsigned rounds = (unsigned)atoi(text);

    return rounds < MOST ? rounds : MOST;
}

static struct pool_key key_of(uint64_t file)
{
    struct pool_key key = {.handle_type = 1, .handle_bytes = 8};

    memset(key.file_system, 0xf5, sizeof(key.file_system));
    memcpy(key.handle, &file, sizeof(file));
    return key;
}

static const char *path_of(uint64_t file, const char *suffix)
{
    static char path[128];

    snprintf(path, sizeof(path), "/scratch/experiments/run-%06llu/checkpoints/model-%02llu.pt%s",
             (unsigned long long)(file / 100), (unsigned long long)(file % 100), suffix);
    return path;
}

static uint64_t commit(struct pool *pool, uint64_t file, const char *path, const void *bytes,
                       size_t length, bool settled)
{
    struct pool_attributes attributes = {
        .path = path, .job = "0123456789abcdef", .size = length, .settled = settled};
    struct pool_key key = key_of(file);
    struct pool_draft *draft;
    uint64_t number = 0;

    need(pool_begin(pool, &key, &draft), "begin");
    need(pool_write(draft, 0, bytes, length), "write");
    need(pool_commit(draft, &attributes, &number), "commit");
    return number;
}

static struct pool *open_pool(const char *path)
{
    struct pool *pool;

    need(pool_open(&pool, path, true), path);
    return pool;
}

/* Its pages are there, as those of a portusd that has run for a while. */
static void touch(struct pool *pool)
{
    need(madvise(pool->map->base, pool->map->size, MADV_POPULATE_WRITE), "madvise");
}

static void fill(const char *path, uint64_t count)
{
    char bytes[1000];
    struct pool *pool = open_pool(path);

    memset(bytes, 'x', sizeof(bytes));
    for (uint64_t i = 0; i < count; i++)
        commit(pool, i, path_of(i, ""), bytes, sizeof(bytes), i % 100 == 99);
    pool_close(pool);
    printf("{\"objects\": %llu", (unsigned long long)count);
}

/* Bytes that are allocated: the index is large, so most of it is mapped by itself. */
static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static void recover_again(const char *path, unsigned rounds)
{
    struct list list = {.name = "open"}, limit = {.name = "read"};
    size_t bytes = 0, count = 0;
    struct stat status;
    char *all;
    int fd;

    for (unsigned i = 0; i < rounds; i++) {
        size_t before = allocated();
        struct clock since = now();
        struct pool *pool = open_pool(path);

        note(&list, since);
        bytes = allocated() - before;
        count = pool->count;
        pool_close(pool);
    }
    /* The limit: all of it once through one thread, as memory. */
    fd = open(path, O_RDONLY | O_CLOEXEC);
    need(fd < 0 || fstat(fd, &status) != 0, path);
    for (unsigned i = 0; i < rounds; i++) {
        struct clock since = now();

        all = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
        need(all == MAP_FAILED, "mmap");
        portus_crc32(0, all, status.st_size);
        note(&limit, since);
        munmap(all, status.st_size);
    }
    close(fd);
    printf("{\"versions\": %zu, \"memory\": %zu", count, bytes);
    print(&list);
    print(&limit);
}

static int count_one(const struct pool_version *version, void *argument)
{
    ++*(size_t *)argument;
    return 0;
}

static void change(const char *path, unsigned rounds)
{
    struct list list = {.name = "change"};
    struct pool *pool = open_pool(path);
    size_t count = pool->count, there = 0;
    char bytes[1000] = "";
    int64_t room;

    /* Nothing is superseded yet: all are passed over, once. */
    need(pool_make_room(pool, pool->data.free * PORTUS_POOL_UNIT + 1, 1) < 0, "room");
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t file = (i * 7919ull) % count, number;
        struct pool_key key = key_of(file);
        struct pool_version version;
        struct clock since = now();

        need(pool_newest(pool, &key, &version), "newest");
        need(pool_each_in(pool, &(struct pool_share){.everyone = true}, path_of(file, ""), POOL_NEWEST, count_one, &there), "directory");
        commit(pool, file, path_of(file, ".tmp"), bytes, sizeof(bytes), true);
        room = pool_make_room(pool, pool->data.free * PORTUS_POOL_UNIT + 1, 1);
        need(room < 0 ? (int)room : 0, "room");
        need(pool_rename(pool, &key, path_of(file, ""), POOL_SETTLED_AS_IT_WAS, &number), "rename");
        note(&list, since);
    }
    need(there < 99 * rounds, "files of a directory were not found");
    need(pool->count - pool->dead > count + 1, "nothing has made room");
    pool_close(pool);
    printf("{\"versions\": %zu", count);
    print(&list);
}

static void pull(const char *path, const char *file, unsigned rounds)
{
    struct list take = {.name = "take"}, copy = {.name = "memcpy"}, back = {.name = "back"},
                out = {.name = "memcpy_back"};
    struct pool_version version = {0};
    struct pool *pool = open_pool(path);
    struct stat status;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    char *from, *to;
    uint64_t number;

    need(fd < 0 || fstat(fd, &status) != 0, file);
    /* What the ring is: memory that is mapped and there. */
    from = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    to = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    need(from == MAP_FAILED || to == MAP_FAILED, "mmap");
    touch(pool);
    for (unsigned i = 0; i < rounds + 1; i++) {
        struct pool_attributes attributes = {.path = "/big.pt", .size = status.st_size};
        struct pool_key key = key_of(1);
        struct pool_draft *draft;
        struct clock since = now();
        struct entry *entry;

        need(pool_begin(pool, &key, &draft), "begin");
        for (int64_t at = 0; at < status.st_size; at += PIECE) {
            int64_t left = status.st_size - at;

            need(pool_write(draft, at, from + at, left < PIECE ? left : PIECE), "write");
        }
        need(pool_commit(draft, &attributes, &number), "commit");
        if (i > 0)
            note(&take, since);
        entry = pool_find(pool, number);
        version.number = number;
        version.place = entry->slot;

        since = now();
        for (int64_t at = 0; at < status.st_size; at += 16 * PIECE) {
            int64_t left = status.st_size - at;

            need(pool_read(pool, &version, at, to + at, left < 16 * PIECE ? left : 16 * PIECE),
                 "read");
        }
        if (i > 0)
            note(&back, since);
        need(memcmp(from, to, status.st_size), "what was read is something else");

        since = now();
        memcpy(to, pool->map->base + pool->super.data, status.st_size);
        if (i > 0)
            note(&out, since);
        need(pool_remove(pool, &version), "remove");

        /* The same bytes of the pool, by one thread's memcpy: what the data space holds now
         * belongs to nobody. */
        since = now();
        memcpy(pool->map->base + pool->super.data, from, status.st_size);
        if (i > 0)
            note(&copy, since);
    }
    pool_close(pool);
    close(fd);
    printf("{\"bytes\": %llu", (unsigned long long)status.st_size);
    print(&take);
    print(&copy);
    print(&back);
    print(&out);
}

static void small(const char *path, unsigned rounds)
{
    struct list take = {.name = "take"}, copy = {.name = "memcpy"};
    struct pool *pool = open_pool(path);
    char *bytes = malloc(PIECE);

    need(bytes == NULL, "malloc");
    memset(bytes, 'x', PIECE);
    touch(pool);
    for (unsigned i = 0; i < rounds + 1; i++) {
        struct pool_version version = {0};
        struct clock since = now();

        version.number = commit(pool, 1, "/small.pt", bytes, PIECE, false);
        if (i > 0)
            note(&take, since);
        version.place = pool_find(pool, version.number)->slot;
        need(pool_remove(pool, &version), "remove");
        since = now();
        memcpy(pool->map->base + pool->super.data, bytes, PIECE);
        if (i > 0)
            note(&copy, since);
    }
    free(bytes);
    pool_close(pool);
    printf("{\"bytes\": %u", PIECE);
    print(&take);
    print(&copy);
}

int main(int argc, char **argv)
{
    portus_log_setup(PORTUS_LOG_WARN, NULL, "pool: ");
    if (argc == 4 && strcmp(argv[1], "fill") == 0)
        fill(argv[2], strtoull(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(argv[1], "open") == 0)
        recover_again(argv[2], rounds_of(argv[3]));
    else if (argc == 4 && strcmp(argv[1], "change") == 0)
        change(argv[2], rounds_of(argv[3]));
    else if (argc == 5 && strcmp(argv[1], "pull") == 0)
        pull(argv[2], argv[3], rounds_of(argv[4]));
    else if (argc == 4 && strcmp(argv[1], "small") == 0)
        small(argv[2], rounds_of(argv[3]));
    else {
        fprintf(stderr, "usage: pool fill|open|change|pull|small POOL ...\n");
        return 2;
    }
    printf("}\n");
    return 0;
}
