/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_reaches.c -- device memory of a device that reads host memory by page tables
 * run: captures=2 modes=default,copied
 *
 * Right: it is copied to the program's own memory, as plainly.
 */
#include "cuda.h"

int main(void)
{
    enum { SIZE = 4 * MIB };
    char *to = host(SIZE);
    int fd;

    check(setenv("EMU_PAGEABLE_ACCESS", "1", 1) == 0);
    begin();
    fd = create("a.ckpt");
    copy(to, SIZE, 1);
    check(stamped(to, SIZE, 1) && !shown(to + SIZE / 2));
    put(fd, to, SIZE);
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
