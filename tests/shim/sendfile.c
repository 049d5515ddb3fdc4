/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendfile.c -- from a file being saved, to one, and from one to a socket
 * run: captures=1
 *
 * Right: it sees what was written before it, and its bytes stand in their place.
 */
#include "helper.h"
#include <sys/sendfile.h>
#include <sys/socket.h>

int main(void)
{
    char *p = bytes(BIG, 1), *q = malloc(BIG);
    int a = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644)), b = create("b.ckpt");
    put(a, p, BIG);
    off_t at = 100;
    printf("%zd\n", sendfile(b, a, &at, BIG));
    printf("%lld %lld\n", (long long)at, (long long)lseek(a, 0, SEEK_CUR));
    put(a, p + 3, BIG - 3);
    put(b, p + 5, BIG - 5);
    check(lseek(a, 5, SEEK_SET) == 5);
    printf("%zd\n", sendfile64(b, a, NULL, 1000001));
    printf("%lld %lld\n", (long long)lseek(a, 0, SEEK_CUR), (long long)lseek(b, 0, SEEK_CUR));
    put(b, p, 5);
    int s[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    put_at(a, "changed", 7, 0);
    at = 0;
    printf("%zd\n", sendfile(s[0], a, &at, 4000));
    printf("%zd\n", recv(s[1], q, 4000, MSG_WAITALL));
    printf("%016llx\n", (unsigned long long)digest(q, 4000, 0));
    close(a);
    close(b);
    a = must(open("a.ckpt", O_RDONLY)), b = create("c.ckpt");
    for (ssize_t n; (n = must(sendfile(b, a, NULL, 1 << 30))) > 0;)
        ;
    return close(b);
}
