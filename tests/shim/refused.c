/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refused.c -- calls that would close a file being saved, and fail: a dup2 onto a number that is
 * above the limit by now, a close_range with flags that there are not
 * run: captures=2
 *
 * Right: the file is still open, and what is written to it then is not written over.
 */
#include "helper.h"
#include <sys/resource.h>
#include <sys/syscall.h>

#define NUMBER 700
#define PIECE (8 * MIB)
#define PIECES 16

int close_range(unsigned first, unsigned last, int flags) __attribute__((weak));

static void refused_dup2(int fd)
{
    int null = must(open("/dev/null", O_WRONLY)), result;
    struct rlimit old, limit;

    must(getrlimit(RLIMIT_NOFILE, &old));
    limit = old;
    limit.rlim_cur = NUMBER;
    must(setrlimit(RLIMIT_NOFILE, &limit));
    result = dup2(null, fd);
    printf("dup2: %d %d\n", result, errno);
    must(setrlimit(RLIMIT_NOFILE, &old));
    close(null);
}

static void refused_close_range(int fd)
{
    int result = close_range != NULL ? close_range((unsigned)fd, (unsigned)fd, 1 << 20)
                                     : (int)syscall(SYS_close_range, fd, fd, 1 << 20);

    printf("close_range: %d %d\n", result, errno);
}

static void save_through(const char *name, void (*refused)(int))
{
    char *old = bytes(PIECE, 1), *new = bytes(PIECE, 2);
    int low = create(name), fd = must(dup2(low, NUMBER));

    check(close(low) == 0);
    for (int i = 0; i < PIECES; i++)
        put(fd, old, PIECE);
    refused(fd);
    for (int i = PIECES; i-- > 0;)
        put_at(fd, new, 4096, (off_t)i *(off_t)PIECE);
    put(fd, new, 100);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    check(close(fd) == 0);
    show(name);
}

int main(void)
{
    save_through("a.ckpt", refused_dup2);
    save_through("b.ckpt", refused_close_range);
    return 0;
}
