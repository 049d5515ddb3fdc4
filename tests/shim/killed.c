/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * killed.c -- SIGKILL of the program right after it closed its files
 * run: captures=1 exit=SIGKILL modes=default,all,ring
 *
 * Right: all that write had taken reaches the files without the program.
 */
#include "helper.h"

int main(void)
{
    save("a.ckpt", 8 * MIB + 3, 1);
    mkdir("d", 0755);
    save("d/b.ckpt", 4 * MIB, 2);
    int fd = create("d/c.ckpt");
    char *p = bytes(BIG, 3);
    put(fd, p, BIG);
    put(fd, p, 100);
    return kill(getpid(), SIGKILL);
}
