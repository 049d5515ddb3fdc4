/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rights.c -- a descriptor in mid-save is sent to another process (SCM_RIGHTS)
 * run: captures=2
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
        struct mmsghdr several = {m, 0};
        check(sending == 1 ? sendmsg(s, &m, 0) == 1 : sendmmsg(s, &several, 1, 0) == 1);
    } else {
        check(recvmsg(s, &m, 0) == 1);
        memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof *fd);
    }
}

static void once(const char *name, int way)
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
    fd = must(open(name, O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    message(s[0], &fd, way);
    check(read(s[0], &one, 1) == 1);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
    put(fd, p + 2, BIG - 2);
    close(fd);
    put(s[0], "x", 1);
    reap("receiver", pid);
    show(name);
}

int main(void)
{
    once("a.ckpt", 1);
    once("b.ckpt", 2);
    return 0;
}
