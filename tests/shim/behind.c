/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * behind.c -- a captured file's descriptor is closed without libc, its number reused
 * run: captures=3
 *
 * Right: the first file is whole, readable at once by others, and takes no part in
 * what the new owner of the number does.
 */
#include "helper.h"
#include <sys/syscall.h>

int main(void)
{
    char *p = bytes(BIG, 1);
    for (int round = 0; round < 2; round++) {
        int fd = create(round == 0 ? "a.ckpt" : "c.ckpt");
        put(fd, p, BIG);
        must(syscall(SYS_close, fd));
        /* Opened as a candidate, and then as one that never is. */
        int other = round == 0 ? create("b.ckpt") : must(open("d.log", O_CREAT | O_WRONLY | O_APPEND, 0644));
        check(other == fd);
        put(other, p + 1, BIG - 1);
        put(other, p + 2, 10);
        close(other);
        int back = must(open(round == 0 ? "a.ckpt" : "c.ckpt", O_RDONLY | O_CLOEXEC));
        printf("%lld\n", (long long)lseek(back, 0, SEEK_END));
        close(back);
    }
    return 0;
}
