/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write.c -- large and small writes in one file, in every order
 * run: captures=1 modes=default,all,ring,drained,durable,relaxed
 *
 * Right: each write takes all its bytes and moves the offset by them.
 */
#include "helper.h"

int main(void)
{
    static const size_t sizes[] = {BIG,     5,        MIB, MIB - 1, MIB + 1, 4096, 1,
                                   2 * MIB, 3 * MIB,  511, 65537,   1,       BIG,  7};
    int fd = create("a.ckpt");
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i % (sizeof sizes / sizeof *sizes)];
        char *p = bytes(n, i);
        put(fd, p, n);
        free(p);
        printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    }
    check(close(fd) == 0);
    printf("%lld\n", size_of("a.ckpt"));
    return 0;
}
