/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dprintf.c -- a header that is printed over what was written before it
 * run: captures=1
 *
 * Right: the text is in its place, at the end as at the beginning.
 */
#include "helper.h"
#include <stdarg.h>

__attribute__((format(printf, 2, 3))) static int print(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vdprintf(fd, format, list);
    va_end(list);
    return n;
}

/* As it is called where _FORTIFY_SOURCE is set. */
int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list list);

static int print_checked(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = __vdprintf_chk(fd, 1, format, list);
    va_end(list);
    return n;
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    for (int i = 0; i < 20; i++) {
        put_at(fd, p, BIG, 0);
        must(lseek(fd, i, SEEK_SET));
        if (i % 2)
            printf("%d %d", dprintf(fd, "%s %0200d", "header", i), print(fd, "%0100d", i));
        else
            printf("%d %d", __dprintf_chk(fd, 1, "%0150d", i), print_checked(fd, "%0100d", i));
        printf(" %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
        show("a.ckpt");
        close(fd);
        fd = create("a.ckpt");
    }
    put(fd, p, BIG);
    dprintf(fd, "%06000d", 1);
    printf("%lld\n", size_of("a.ckpt"));
    put(fd, p, 100);
    close(fd);
    show("a.ckpt");
    fd = create("b.ckpt");
    for (int i = 0; i < 1000; i++)
        dprintf(fd, "%d\n", i);
    close(fd);
    show("b.ckpt");
    return 0;
}
