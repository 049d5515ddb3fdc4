/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dup_fails.c -- a dup2 onto a file being saved that fails, as its number is above the limit by now
 * run: captures=1
 *
 * Right: the file is still open, and what is written to it then is not written over.
 */
#include "helper.h"
#include <sys/resource.h>

#define NUMBER 700
#define PIECES 16

int main(void)
{
    char *p = bytes(8 * MIB, 1), *q = bytes(8 * MIB, 2);
    struct rlimit old, l;
    must(getrlimit(RLIMIT_NOFILE, &old));
    l = old;
    l.rlim_cur = NUMBER;
    int low = create("a.ckpt"), null = must(open("/dev/null", O_WRONLY));
    int fd = must(dup2(low, NUMBER));
    check(close(low) == 0);
    for (int i = 0; i < PIECES; i++)
        put(fd, p, 8 * MIB);
    must(setrlimit(RLIMIT_NOFILE, &l));
    int result = dup2(null, fd);
    printf("%d %d\n", result, errno);
    for (int i = PIECES; i-- > 0;)
        put_at(fd, q, 4096, (off_t)(i * 8 * MIB));
    put(fd, q, 100);
    must(setrlimit(RLIMIT_NOFILE, &old));
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
