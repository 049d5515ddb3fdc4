/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.c -- the two ends of a link, by themselves: pulls memory into PATH, pushes it back, compares
 *
 *     pull serve ADDRESS PATH MIB [PIECE_KIB LANES DEPTH]
 *     pull offer ADDRESS MIB [wrong-key | wrong-secret | withdraw | break]
 *     pull devices
 *
 * PATH is a devdax device, or a file (on fsdax, say), and is mapped by libpmem2. If the device cannot
 * be registered the bytes go by a buffer in DRAM. What the two have to agree on goes over TCP, plainly:
 * it is no part of what is looked at. Prints "NAME VALUE..." lines.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/copy.h"
#include "transport/verbs.h"

#define PORT 7474
#define STEP (4ull << 20) /* bytes that are exposed at once */
#define JOB (1u << 20)
#define ALIEN 0xeeeeeeeeeeeeeeeeull
#define BUFFERS 32 /* in DRAM, where the pool cannot be registered */
#define IDLE_MS 5000
#define SINGLES 20

struct hello {
    uint8_t secret[VERBS_SECRET];
    uint64_t bytes;
    uint32_t crc, steps;
};

static const struct verbs_ops *ops;
static char why[VERBS_WHY];

static void die(const char *what)
{
    printf("failed %s: %s (%s)\n", what, why, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double processor(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void send_all(int fd, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("send");
}

static void receive_all(int fd, void *bytes, size_t n)
{
    if (recv(fd, bytes, n, MSG_WAITALL) != (ssize_t)n)
        die("receive");
}

/* A wait until there is something to do, and a turn, as portusd's loop: what has not gone out by then waits as long. */
static void turn(struct verbs *verbs, int milliseconds)
{
    struct pollfd event = {.fd = ops->descriptor(verbs), .events = POLLIN};

    ops->give(verbs);
    poll(&event, 1, milliseconds);
    ops->turn(verbs);
}

static void until_ready(struct verbs *verbs, struct verbs_link *link)
{
    while (ops->state(link) == VERBS_BEGINS)
        turn(verbs, 100);
    if (ops->state(link) != VERBS_READY) {
        printf("broken %d %s\n", ops->error(link), ops->why(link));
        exit(3);
    }
}

static void broken(const struct verbs_link *link, double since)
{
    printf("broken %d %.1f %s\n", ops->error(link), now() - since, ops->why(link));
    exit(3);
}

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    if (inet_pton(AF_INET, text, &a.sin_addr) != 1)
        die(text);
    return a;
}

/* ---- the end that pulls ---- */

struct pool {
    char *base;
    struct pmem2_map *map;
    char *buffer; /* NULL: straight into the pool */
};

static struct pool open_pool(const char *path, size_t bytes)
{
    struct pool pool = {0};
    struct pmem2_config *config;
    struct pmem2_source *source;
    struct stat status;
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    if (fd < 0 || fstat(fd, &status) < 0 ||
        (S_ISREG(status.st_mode) && posix_fallocate(fd, 0, (off_t)bytes) != 0))
        die(path);
    if (pmem2_source_from_fd(&source, fd) != 0 || pmem2_config_new(&config) != 0 ||
        pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) != 0 ||
        pmem2_map_new(&pool.map, config, source) != 0)
        die(pmem2_errormsg());
    pool.base = pmem2_map_get_address(pool.map);
    return pool;
}

static void pull(struct verbs *verbs, struct verbs_link *link, struct pool *pool,
                 const struct hello *hello, const struct verbs_source *steps)
{
    pmem2_persist_fn persist = pmem2_get_persist_fn(pool->map);
    pmem2_memcpy_fn copy = pmem2_get_memcpy_fn(pool->map);
    uint64_t asked = 0, through = 0, cookie;
    double begin = now(), busy = processor();

    while (through < hello->bytes) {
        while (asked < hello->bytes && (pool->buffer == NULL || asked - through < BUFFERS * JOB)) {
            struct verbs_source from = steps[asked / STEP];
            char *to = pool->buffer != NULL ? pool->buffer + asked % (BUFFERS * JOB)
                                            : pool->base + asked;

            from.address += asked % STEP;
            if (ops->read(link, &from, to, JOB, asked) != 0)
                break;
            asked += JOB;
        }
        turn(verbs, IDLE_MS);
        if (ops->state(link) == VERBS_BROKEN) {
            uint64_t alien = 0;

            /* What counts as pulled has no byte of what came into that memory after the link. */
            for (uint64_t i = 0; i < through / 8; i++)
                alien += ((uint64_t *)pool->base)[i] == ALIEN;
            printf("pulled %llu, of it alien %llu\n", (unsigned long long)through,
                   (unsigned long long)alien * 8);
            broken(link, begin);
        }
        while (ops->done(link, &cookie)) {
            if (pool->buffer != NULL)
                copy(pool->base + cookie, pool->buffer + cookie % (BUFFERS * JOB), JOB,
                     PMEM2_F_MEM_NONTEMPORAL);
            else
                persist(pool->base + cookie, JOB);
            if (cookie != through)
                die("out of order");
            through += JOB;
            printf("pulled %llu\n", (unsigned long long)through);
        }
    }
    begin = now() - begin;
    printf("pull %.1f MiB/s, %.2f s/GiB of processor\n", (double)hello->bytes / begin / (1 << 20),
           (processor() - busy) / ((double)hello->bytes / (1 << 30)));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One READ after the other, each waited for. */
static void read_singly(struct verbs *verbs, struct verbs_link *link, struct pool *pool,
                        const struct verbs_source *from)
{
    char *to = pool->buffer != NULL ? pool->buffer : pool->base;
    double took[SINGLES];
    uint64_t cookie;

    for (unsigned i = 0; i < SINGLES; i++) {
        double begin = now();

        if (ops->read(link, from, to, JOB, i) != 0)
            die("read");
        while (!ops->done(link, &cookie)) {
            turn(verbs, IDLE_MS);
            if (ops->state(link) == VERBS_BROKEN)
                broken(link, begin);
        }
        took[i] = now() - begin;
    }
    qsort(took, SINGLES, sizeof(took[0]), by_value);
    printf("single %.1f ms, %.1f at most\n", took[SINGLES / 2] * 1e3, took[SINGLES - 1] * 1e3);
}

static void push(struct verbs *verbs, struct verbs_link *link, struct pool *pool,
                 const struct hello *hello, struct verbs_source to)
{
    uint64_t asked = 0, through = 0, cookie;
    double begin = now(), busy = processor();

    while (through < hello->bytes) {
        while (asked < hello->bytes && asked - through < BUFFERS * JOB) {
            struct verbs_source at = to;
            char *from = pool->buffer != NULL ? pool->buffer + asked % (BUFFERS * JOB)
                                              : pool->base + asked;

            at.address += asked;
            if (pool->buffer != NULL)
                portus_copy(from, pool->base + asked, JOB);
            if (ops->push(link, &at, from, JOB, (uint32_t)(asked / JOB), asked) != 0)
                break;
            asked += JOB;
        }
        turn(verbs, IDLE_MS);
        if (ops->state(link) == VERBS_BROKEN)
            broken(link, begin);
        while (ops->done(link, &cookie))
            through += JOB;
    }
    begin = now() - begin;
    printf("push %.1f MiB/s, %.2f s/GiB of processor\n", (double)hello->bytes / begin / (1 << 20),
           (processor() - busy) / ((double)hello->bytes / (1 << 30)));
}

static int serve(int argc, char **argv)
{
    struct verbs_options options = {.piece = argc > 5 ? (uint32_t)atoi(argv[5]) << 10 : 0,
                                    .lanes = argc > 6 ? (unsigned)atoi(argv[6]) : 0,
                                    .depth = argc > 7 ? (unsigned)atoi(argv[7]) : 0};
    struct sockaddr_in at = address(argv[2]);
    size_t most = strtoull(argv[4], NULL, 10) << 20;
    struct pool pool = open_pool(argv[3], most);
    struct verbs_source *steps, back;
    struct verbs_link *link;
    struct verbs *verbs;
    struct hello hello;
    int listener = socket(AF_INET, SOCK_STREAM, 0), control, error;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (ops->begin(&verbs, &options, why) != 0)
        die("begin");
    error = ops->keep(verbs, pool.base, most, why);
    if (error == -EOPNOTSUPP) {
        pool.buffer = mmap(NULL, BUFFERS * JOB, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        error = ops->keep(verbs, pool.buffer, BUFFERS * JOB, why);
    }
    if (error != 0)
        die("keep");
    printf("registered %s\n", pool.buffer != NULL ? "buffer" : "pool");
    if (ops->listen(verbs, (struct sockaddr *)&at, sizeof(at), why) != 0)
        die("listen");
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 4) < 0)
        die("listen");
    printf("listening\n");
    control = accept(listener, NULL, NULL);
    receive_all(control, &hello, sizeof(hello));
    if (hello.bytes > most || hello.steps > 4096)
        die("too much");
    if (ops->expect(verbs, hello.secret, &link) != 0)
        die("expect");
    send_all(control, "g", 1);
    until_ready(verbs, link);
    printf("connected\n");
    steps = calloc(hello.steps, sizeof(*steps));
    receive_all(control, steps, hello.steps * sizeof(*steps));
    receive_all(control, &back, sizeof(back));
    pull(verbs, link, &pool, &hello, steps);
    printf("equal %d\n", portus_crc32(0, pool.base, hello.bytes) == hello.crc);
    read_singly(verbs, link, &pool, &steps[0]);
    push(verbs, link, &pool, &hello, back);
    /* Who sent last hangs up last. */
    while (ops->state(link) == VERBS_READY)
        turn(verbs, 100);
    printf("end %s\n", ops->why(link));
    ops->close(link);
    ops->end(verbs);
    return 0;
}

/* ---- the end that is pulled from ---- */

static int offer(int argc, char **argv)
{
    const char *fault = argc > 4 ? argv[4] : "";
    struct sockaddr_in at = address(argv[2]);
    struct hello hello = {.bytes = strtoull(argv[3], NULL, 10) << 20};
    char *from = mmap(NULL, hello.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *to = mmap(NULL, hello.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct verbs_options options = {.lanes = 2};
    struct verbs_source *steps, back;
    struct verbs_link *link;
    struct verbs *verbs;
    uint64_t word = (uint64_t)getpid() << 32;
    uint32_t number, came = 0;
    int control = socket(AF_INET, SOCK_STREAM, 0);
    double begin;
    char go;

    hello.steps = (uint32_t)((hello.bytes + STEP - 1) / STEP);
    for (uint64_t i = 0; i < hello.bytes / 8; i++)
        ((uint64_t *)from)[i] = word += 0x9e3779b97f4a7c15ull;
    hello.crc = portus_crc32(0, from, hello.bytes);
    for (unsigned i = 0; i < VERBS_SECRET; i++)
        hello.secret[i] = (uint8_t)rand();
    if (ops->begin(&verbs, &options, why) != 0)
        die("begin");
    if (connect(control, (struct sockaddr *)&at, sizeof(at)) < 0)
        die("connect");
    send_all(control, &hello, sizeof(hello));
    receive_all(control, &go, 1);
    if (strcmp(fault, "wrong-secret") == 0)
        hello.secret[VERBS_SECRET - 1] ^= 1;
    begin = now();
    if (ops->dial(verbs, (struct sockaddr *)&at, sizeof(at), hello.secret, &link, why) != 0)
        die("dial");
    until_ready(verbs, link);
    printf("connected in %.0f ms\n", (now() - begin) * 1e3);
    steps = calloc(hello.steps, sizeof(*steps));
    for (uint32_t i = 0; i < hello.steps; i++) {
        size_t left = hello.bytes - i * STEP;

        if (ops->expose(link, from + i * STEP, left < STEP ? left : STEP, &steps[i], why) != 0)
            die("expose");
    }
    if (ops->lend(link, to, hello.bytes, &back, why) != 0)
        die("lend");
    if (strcmp(fault, "wrong-key") == 0)
        steps[hello.steps / 2].key[0] ^= 0x5a00;
    if (strcmp(fault, "withdraw") == 0)
        ops->withdraw(link, &steps[hello.steps / 2]);
    send_all(control, steps, hello.steps * sizeof(*steps));
    send_all(control, &back, sizeof(back));
    begin = now();
    while (came < hello.bytes / JOB) {
        turn(verbs, 20);
        if (ops->state(link) == VERBS_BROKEN)
            broken(link, begin);
        while (ops->pushed(link, &number))
            came++;
        /* Nobody reads it any more. */
        if (strcmp(fault, "break") == 0 && now() - begin > 8) {
            ops->break_off(link, -ECANCELED, "as the test wants");
            memset(from, (int)(ALIEN & 0xff), hello.bytes);
            printf("broke off\n");
        }
    }
    printf("same %d\n", memcmp(from, to, hello.bytes) == 0);
    ops->close(link);
    ops->end(verbs);
    return 0;
}

static int devices(void)
{
    struct verbs_device device;

    for (unsigned i = 0; ops->describe(i, &device); i++)
        printf("device %s %s %s gid %d %s mtu %u depth %u %u numa %d %.0f Gb/s\n", device.name,
               device.active ? "active" : "down", device.link_layer, device.gid_index, device.gid,
               device.mtu, device.depth, device.dialled_depth, device.numa, device.gigabits);
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    ops = verbs_load(why);
    if (ops == NULL)
        die("load");
    if (argc == 2 && strcmp(argv[1], "devices") == 0)
        return devices();
    if (argc >= 5 && strcmp(argv[1], "serve") == 0)
        return serve(argc, argv);
    if (argc >= 4 && strcmp(argv[1], "offer") == 0)
        return offer(argc, argv);
    return 2;
}
