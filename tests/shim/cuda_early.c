/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_early.c -- a program that copies all from the device first, and opens its file then
 * run: captures=6 referred=50 modes=default,all,copied
 *
 * Right: the files; and that copies from the same device memory which are not saved any more, or
 * into memory that is used otherwise, are as ever.
 */
#include "cuda.h"

enum { SIZE = 2 * MIB, COUNT = 3 };

int main(void)
{
    CUdeviceptr from[COUNT];
    char *to[COUNT];
    int fd;

    begin();
    for (unsigned i = 0; i < COUNT; i++)
        from[i] = device_memory(SIZE);
    for (uint32_t round = 0; round < 6; round++) {
        char name[] = {(char)('a' + round), '.', 'c', 'k', 'p', 't', 0};

        for (uint32_t i = 0; i < COUNT; i++) {
            to[i] = host(SIZE);
            stamp(from[i], SIZE, round * 10 + i, NULL);
            ok(cuMemcpyDtoH_v2(to[i], from[i], SIZE));
            stamp(from[i], SIZE, 1000, NULL);
        }
        for (uint32_t i = 0; i < COUNT; i++)
            check(stamped(to[i], SIZE, round * 10 + i));
        fd = create(name);
        for (uint32_t i = 0; i < COUNT; i++)
            put(fd, to[i], SIZE);
        check(close(fd) == 0);
        for (unsigned i = 0; i < COUNT; i++)
            free(to[i]);
        show(name);
    }
    /* Looked at only, again and again. */
    for (uint32_t i = 0; i < 30; i++) {
        to[0] = host(SIZE);
        stamp(from[0], SIZE, i, NULL);
        ok(cuMemcpyDtoH_v2(to[0], from[0], SIZE));
        check(stamped(to[0], SIZE, i));
        free(to[0]);
    }
    return 0;
}
