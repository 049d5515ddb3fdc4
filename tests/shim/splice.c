/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * splice.c -- splice, tee and vmsplice through a pipe from and to a file being saved
 * run: captures=1
 *
 * Right: it sees what was written before it, and its bytes stand in their place.
 */
#include "helper.h"

static void through(int from, off_t *at, int to, size_t n)
{
    int pipe_[2];
    must(pipe(pipe_));
    for (size_t done = 0; done < n;) {
        ssize_t got = must(splice(from, at, pipe_[1], NULL, n - done < 65536 ? n - done : 65536, 0));
        check(got > 0);
        for (ssize_t left = got; left > 0;)
            left -= must(splice(pipe_[0], NULL, to, NULL, (size_t)left, 0));
        done += (size_t)got;
    }
    close(pipe_[0]), close(pipe_[1]);
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int a = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644)), b = create("b.ckpt");
    put(a, p, BIG);
    put(b, p + 1, BIG - 1);
    off_t at = 17;
    through(a, &at, b, MIB + 5);
    printf("%lld %lld\n", (long long)at, (long long)lseek(b, 0, SEEK_CUR));
    put(b, p, 10);
    int pipe_[2], copy[2];
    must(pipe(pipe_)), must(pipe(copy));
    struct iovec v = {p + 100, 5000};
    printf("%zd\n", vmsplice(pipe_[1], &v, 1, 0));
    printf("%zd\n", tee(pipe_[0], copy[1], 5000, 0));
    printf("%zd\n", splice(pipe_[0], NULL, a, NULL, 5000, 0));
    at = 50;
    printf("%zd\n", splice(copy[0], NULL, a, &at, 5000, 0));
    printf("%lld\n", (long long)lseek(a, 0, SEEK_CUR));
    put(a, p, BIG);
    close(b);
    return close(a);
}
