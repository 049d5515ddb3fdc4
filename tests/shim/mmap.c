/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mmap.c -- a file being saved is mapped: read, changed through the mapping, written again
 * run: captures=1
 *
 * Right: mapping and writes see each other at once, as in one page cache.
 */
#include "helper.h"
#include <sys/mman.h>

int main(void)
{
    char *p = bytes(2 * BIG, 1);
    int fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    char *m = mmap(NULL, 2 * BIG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(m != MAP_FAILED && memcmp(m, p, BIG) == 0);
    memset(m + 1000, 'm', 5000);
    put_at(fd, p + 7, 100, 3000);
    check(m[2999] == 'm' && memcmp(m + 3000, p + 7, 100) == 0 && m[3100] == 'm');
    put(fd, p + BIG, BIG);
    check(memcmp(m + BIG, p + BIG, BIG) == 0);
    m[2 * BIG - 1] = 'e';
    check(msync(m, 2 * BIG, MS_SYNC) == 0);
    close(fd);
    m[0] = 'b';
    show("a.ckpt");
    check(munmap(m, 2 * BIG) == 0);

    /* mapped while it is empty, then saved: the mapping is the older one */
    fd = must(open("b.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    m = mmap64(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(m != MAP_FAILED);
    put(fd, p, BIG);
    printf("%016llx\n", (unsigned long long)digest(m, BIG, 0));
    m[5] = 'x';
    close(fd);
    show("b.ckpt");

    /* saved, closed, mapped by a new fd at once */
    save("c.ckpt", BIG, 3);
    fd = must(open("c.ckpt", O_RDWR));
    m = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    printf("%016llx\n", (unsigned long long)digest(m, BIG, 0));
    m[5] = 'y';
    return 0;
}
