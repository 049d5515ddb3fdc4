/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork.c -- a child writes and reads through the descriptor it inherited in mid-save
 * run: captures=1
 *
 * Right: one offset for both; each sees the other's bytes; the child's end closes
 * nothing of the parent's.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    pid_t pid = must(fork());
    if (pid == 0) {
        put(fd, p + 1, BIG - 1);
        put(fd, "small", 5);
        return 7;
    }
    reap("writer", pid);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    put(fd, p + 2, BIG - 2);
    fflush(stdout);
    pid = must(fork());
    if (pid == 0) {
        show_fd("inherited", fd);
        show("a.ckpt");
        save("child.ckpt", BIG, 3);
        exit(8);
    }
    reap("reader", pid);
    put_at(fd, p, 100, 5);
    fflush(stdout);
    pid = must(fork());
    if (pid == 0) {
        close(fd);
        must(rename("child.ckpt", "b.ckpt"));
        pid = must(fork());
        if (pid == 0) {
            show("a.ckpt");
            exit(0);
        }
        reap("grandchild", pid);
        fflush(stdout);
        _exit(9);
    }
    reap("closer", pid);
    put(fd, p, MIB);
    put(fd, p + 4, BIG - 4);
    close(fd);
    show("a.ckpt");
    return 0;
}
