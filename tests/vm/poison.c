/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poison.c -- finds a page of a version in a pool, and makes a page bad
 *
 *     poison where POOL COMMIT      prints the place of its first byte's page in the pool
 *     poison page POOL PLACE        tells the kernel that the memory there is bad (MADV_HWPOISON)
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"
#include "portus/layout.h"
#include "store/pool.h"

#define PAGE 4096u

static uint64_t wanted;

static int show(const struct pool_version *version, void *argument)
{
    const struct portus_pool_extent *extents;
    uint64_t count;

    if (version->number == wanted &&
        pool_extents(argument, version, &extents, &count) == 0 && count > 0)
        printf("%llu\n", (unsigned long long)(extents[0].place & ~(uint64_t)(PAGE - 1)));
    return 0;
}

static void bad(int number)
{
    _exit(0); /* it is mapped here, too */
}

static int make_bad(const char *path, uint64_t place)
{
    int fd = open(path, O_RDWR);
    /* A devdax device maps in pieces of 2 MiB. */
    uint64_t begin = place & ~((2ull << 20) - 1);
    char *at = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)begin);

    if (fd < 0 || at == MAP_FAILED) {
        perror(path);
        return 1;
    }
    signal(SIGBUS, bad);
    (void)*(volatile char *)(at + place - begin);
    if (madvise(at + place - begin, PAGE, MADV_HWPOISON) == 0)
        return 0;
    perror("MADV_HWPOISON");
    return 1;
}

int main(int argc, char **argv)
{
    struct pool *pool;
    int error;

    portus_log_setup(PORTUS_LOG_WARN, NULL, "poison: ");
    if (argc != 4)
        return 2;
    wanted = strtoull(argv[3], NULL, 10);
    if (strcmp(argv[1], "page") == 0)
        return make_bad(argv[2], wanted);
    if (strcmp(argv[1], "where") != 0 || pool_open(&pool, argv[2], false) != 0)
        return 2;
    error = pool_each(pool, show, pool);
    pool_close(pool);
    return error != 0;
}
