/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_kinds.c -- memory of all kinds that a device is copied to
 * run: captures=2 referred=5 modes=default,ring,copied
 *
 * Right: all of it has the device's bytes, and so has the file; and memory that others map,
 * or that is a file's, is still theirs.
 */
#include <sys/syscall.h>
#include <linux/memfd.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

static char below[SIZE + 4096];
static char filled[SIZE] = "not zero";

static int fd;

static void check_one(const char *title, char *to)
{
    copy(to, SIZE, 1);
    check(stamped(to, SIZE, 1));
    put(fd, to, SIZE);
    copy(to, SIZE, 2);
    churn(fd);
    check(stamped(to, SIZE, 2));
    put(fd, to, SIZE);
    printf("%s\n", title);
}

static char *map(int flags, int file)
{
    char *to = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, file, 0);

    return to == MAP_FAILED ? NULL : to;
}

int main(void)
{
    char stack[SIZE], *to, *again;
    void *pinned;
    int file;

    begin();
    fd = create("a.ckpt");
    check_one("static memory", below + 100);
    check_one("static memory that is a file's", filled);
    check_one("a stack", stack);

    to = map(MAP_SHARED | MAP_ANONYMOUS, -1);
    check_one("shared memory", to);
    munmap(to, SIZE);

    file = must(open("shared", O_RDWR | O_CREAT | O_TRUNC, 0644));
    must(ftruncate(file, SIZE));
    to = map(MAP_SHARED, file);
    again = map(MAP_SHARED, file);
    check_one("a file, shared", to);
    check(stamped(again, SIZE, 2));
    munmap(to, SIZE);
    munmap(again, SIZE);
    to = map(MAP_PRIVATE, file);
    check_one("a file, private", to);
    munmap(to, SIZE);
    close(file);

    to = map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    if (to != NULL)
        check_one("huge pages", to);
    else
        printf("huge pages\n");

    /* What the device writes to later, it must still write to. */
    ok(cuMemHostAlloc(&pinned, SIZE, 0));
    check_one("pinned memory", pinned);
    check(!shown((char *)pinned + MIB));
    to = anonymous(SIZE);
    ok(cuMemHostRegister_v2(to, SIZE, 0));
    check_one("registered memory", to);
    check(!shown(to + MIB));
    ok(cuMemHostUnregister(to));
    check_one("memory that was registered", to);
    ok(cuMemHostRegister_v2(to, SIZE, 0));
    check(stamped(to, SIZE, 2));
    check_one("memory that is registered after it was promised", to);
    ok(cuMemHostUnregister(to));
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
