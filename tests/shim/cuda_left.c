/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_left.c -- memory that was saved is kept: a little, over which the next save copies, and much
 * run: captures=4 referred=20 modes=default,ring,copied
 *
 * Right: a little is left as it is, and is right whatever comes; much, for a small ring, is filled soon
 * after the save.
 */
#include "cuda.h"

enum { LITTLE = MIB + 4096, MUCH = 5 * MIB };

/* How much of the memory there the kernel has copied; -1: it is no mapping of the ring. */
static long settled(const void *at)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long start, end;
    char line[512];
    long found = -1;
    int here = 0;

    check(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2)
            here = (unsigned long)at >= start && (unsigned long)at < end && strstr(line, "portus-ring");
        else if (here)
            sscanf(line, "Anonymous: %ld", &found);
    fclose(maps);
    return found;
}

static void save_one(const char *name, char *to, size_t size, uint32_t seed)
{
    int fd = create(name);

    copy(to, size, seed);
    put(fd, to, size);
    check(close(fd) == 0);
}

int main(void)
{
    char *little = anonymous(LITTLE), *much[2] = {anonymous(MUCH), anonymous(MUCH)};
    int fd;

    begin();
    save_one("a.ckpt", little, LITTLE, 1);
    sleep(2);
    check(settled(little) <= 0);
    check(stamped(little, LITTLE, 1));
    save_one("b.ckpt", little, LITTLE, 2);
    sleep(2);
    check(settled(little) <= 0);

    fd = create("c.ckpt");
    for (uint32_t i = 0; i < 2; i++) {
        copy(much[i], MUCH, 3 + i);
        put(fd, much[i], MUCH);
    }
    check(close(fd) == 0);
    for (unsigned tries = 0; getenv("PORTUS_RING_SIZE") && (settled(much[0]) == 0 || settled(much[1]) == 0); tries++) {
        check(tries < 500);
        usleep(10000);
    }
    fd = create("d.ckpt");
    churn(fd);
    check(stamped(little, LITTLE, 2) && stamped(much[0], MUCH, 3) && stamped(much[1], MUCH, 4));
    put(fd, little, LITTLE);
    put(fd, much[0], MUCH);
    check(close(fd) == 0);
    show("a.ckpt");
    show("b.ckpt");
    show("c.ckpt");
    show("d.ckpt");
    return 0;
}
