/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reuse.c -- the buffer is overwritten, freed or unmapped at once after write
 * run: captures=1 modes=default,all,ring
 *
 * Right: the bytes as they were when write returned.
 */
#include "helper.h"
#include <sys/mman.h>

int main(void)
{
    char *p = malloc(4 * MIB);
    int fd = create("a.ckpt");
    for (int i = 0; i < 12; i++) {
        memset(p, i, 4 * MIB);
        put(fd, p, 4 * MIB);
        memset(p, 'z', 4 * MIB);
    }
    for (int i = 0; i < 4; i++) {
        char *m = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(m != MAP_FAILED);
        fill(m, 2 * MIB, (uint64_t)i);
        struct iovec v[2] = {{m + 1, MIB}, {m + MIB, MIB}};
        check(writev(fd, v, 2) == (ssize_t)(2 * MIB));
        check(munmap(m, 2 * MIB) == 0);
    }
    close(fd);
    memset(p, 'z', 4 * MIB);
    return 0;
}
