/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_pin.c -- the ring is pinned between saves, and not when capture is off
 * run: captures=3 referred=50 modes=default,copied
 */
#include <libgen.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

/* The ring's data, or NULL: there is none. */
static char *ring(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], permissions[8], *start = NULL;

    check(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, "portus-ring") && sscanf(line, "%p-%*p %7s", (void **)&start, permissions) == 2 &&
            permissions[3] == 's')
            break;
        else
            start = NULL;
    fclose(maps);
    return start != NULL ? start + 16384 * 32 : NULL;
}

static int pinned(void)
{
    unsigned type;

    return cuPointerGetAttribute(&type, 2, (CUdeviceptr)(uintptr_t)ring()) == CUDA_SUCCESS;
}

/* Calls of CUDA's, small ones, until it is so. */
static void until(int wanted)
{
    static CUdeviceptr from;
    char to[8];

    if (!from)
        from = device_memory(8);
    for (unsigned tries = 0; ring() != NULL && pinned() != wanted; tries++) {
        check(tries < 300);
        usleep(10000);
        ok(cuMemcpyDtoH_v2(to, from, 8));
    }
}

static void write_one(const char *name, uint32_t seed)
{
    char *to = host(SIZE);
    int fd = create(name);

    for (uint32_t i = 0; i < 4; i++) {
        copy(to, SIZE, seed + i);
        check(stamped(to, SIZE, seed + i));
        put(fd, to, SIZE);
    }
    check(close(fd) == 0);
    free(to);
    show(name);
}

/* portusctl, if we have an agent. */
static void tell(const char *what)
{
    char self[4096], command[4200];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    check(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof(command), "%s/../../portusctl %s >/dev/null", dirname(self), what);
    check(ring() == NULL || bare(command) == 0);
}

int main(void)
{
    begin();
    write_one("a.ckpt", 10);
    until(1);
    write_one("b.ckpt", 20);
    until(1);
    tell("off");
    until(0);
    tell("on");
    until(1);
    write_one("c.ckpt", 30);
    return 0;
}
