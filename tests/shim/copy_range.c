/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_range.c -- copy_file_range and FICLONE from and to a file being saved
 * run: captures=1
 *
 * Right: it sees what was written before it, and its bytes stand in their place.
 */
#include "helper.h"
#include <linux/fs.h>
#include <sys/ioctl.h>

int main(void)
{
    char *p = bytes(BIG, 1);
    int a = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    int b = must(open("b.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(a, p, BIG);
    off_t from = 7, to = 11;
    printf("%zd\n", copy_file_range(a, &from, b, &to, MIB + 1, 0));
    printf("%lld %lld\n", (long long)from, (long long)to);
    put(b, p + 1, BIG - 1);
    put(a, p + 9, BIG - 9);
    check(lseek(a, 3, SEEK_SET) == 3);
    printf("%zd\n", copy_file_range(a, NULL, b, NULL, 2 * MIB, 0));
    printf("%lld %lld\n", (long long)lseek(a, 0, SEEK_CUR), (long long)lseek(b, 0, SEEK_CUR));
    put(b, p, 9);
    errno = 0;
    int value = ioctl(b, FICLONE, a);
    printf("%d %d\n", value, value ? errno : 0);
    put_at(b, p, 3, 1);
    close(a);
    int c = create("c.ckpt");
    close(b);
    b = must(open("b.ckpt", O_RDONLY));
    for (ssize_t n; (n = must(copy_file_range(b, NULL, c, NULL, 1 << 30, 0))) > 0;)
        ;
    return close(c);
}
