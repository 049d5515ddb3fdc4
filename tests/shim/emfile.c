/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emfile.c -- few descriptors: RLIMIT_NOFILE small from the start, and lowered in mid-save
 *
 * Right: the program can open exactly as many files as without the shim, and each
 * open gets the lowest free number.
 * run: timeout=30
 */
#include "helper.h"
#include <sys/resource.h>

static void all(const char *title, const char *p)
{
    int fd[64], n = 0;
    char name[32];
    for (; n < 64; n++) {
        snprintf(name, sizeof name, "%s%d.ckpt", title, n);
        if ((fd[n] = open(name, O_CREAT | O_WRONLY, 0644)) < 0)
            break;
        put(fd[n], p + n, MIB + (size_t)n);
    }
    printf("%s: %d files, %d, first %d, last %d\n", title, n, errno, fd[0], fd[n - 1]);
    for (int i = 0; i < n; i++) {
        put(fd[i], p, 10);
        check(close(fd[i]) == 0);
    }
}

int main(void)
{
    char *p = bytes(2 * MIB, 1);
    struct rlimit old, l;
    must(getrlimit(RLIMIT_NOFILE, &old));
    l = old;
    l.rlim_cur = 16;
    must(setrlimit(RLIMIT_NOFILE, &l));
    all("low", p);
    must(setrlimit(RLIMIT_NOFILE, &old));
    int fd = create("a.ckpt");
    put(fd, p, 2 * MIB);
    must(setrlimit(RLIMIT_NOFILE, &l));
    all("lowered", p);
    put(fd, p, 2 * MIB);
    close(fd);
    l.rlim_cur = 4;
    must(setrlimit(RLIMIT_NOFILE, &l));
    for (int i = 0; i < 5; i++)
        save("b.ckpt", BIG, (uint64_t)i);
    show("b.ckpt");
    return 0;
}
