/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rights.c -- a descriptor in mid-save is sent to another process (SCM_RIGHTS)
 * run: captures=1
 *
 * Right: both write and read one file with one offset; it stays open in the other
 * process as long as that wants.
 */
#include "helper.h"
#include <sys/socket.h>

static void message(int s, int *fd, int sending)
{
    char one = 1;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec v = {&one, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
                       .msg_controllen = sizeof control};
    if (sending) {
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), fd, sizeof *fd);
        check(sendmsg(s, &m, 0) == 1);
    } else {
        check(recvmsg(s, &m, 0) == 1);
        memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof *fd);
    }
}

int main(void)
{
    char *p = bytes(BIG, 1), one;
    int s[2], fd;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    pid_t pid = must(fork());
    if (pid == 0) {
        message(s[1], &fd, 0);
        show_fd("received", fd);
        put(fd, p + 1, BIG - 1);
        put(s[1], "x", 1);
        check(read(s[1], &one, 1) == 1);
        show_fd("received", fd);
        put(fd, "end", 3);
        exit(0);
    }
    fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    message(s[0], &fd, 1);
    check(read(s[0], &one, 1) == 1);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
    put(fd, p + 2, BIG - 2);
    close(fd);
    put(s[0], "x", 1);
    reap("receiver", pid);
    show("a.ckpt");
    return 0;
}
