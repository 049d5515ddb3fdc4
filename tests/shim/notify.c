/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify.c -- a watcher without the shim acts on CLOSE_WRITE
 * run: captures=3
 *
 * Right: when the event comes the file has all its bytes, also for who only asks
 * for its size.
 */
#include "helper.h"
#include <sys/inotify.h>

static int watch(void)
{
    char event[4096] __attribute__((aligned(8)));
    long long size[3] = {0};
    int fd = must(inotify_init1(0));
    must(inotify_add_watch(fd, ".", IN_CLOSE_WRITE));
    put(1, "ready\n", 6);
    for (int left = 3; left > 0;) {
        ssize_t n = must(read(fd, event, sizeof event));
        for (char *e = event; e < event + n;) {
            struct inotify_event *i = (struct inotify_event *)e;
            if (i->len && strstr(i->name, ".ckpt")) {
                size[i->name[0] - 'a'] = size_of(i->name);
                left--;
            }
            e += sizeof *i + i->len;
        }
    }
    printf("%lld %lld %lld\n", size[0], size[1], size[2]);
    show("a.ckpt"), show("b.ckpt"), show("c.ckpt");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return watch();
    int pipe_[2];
    char text[16];
    must(pipe(pipe_));
    pid_t pid = must(fork());
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        dup2(pipe_[1], 1);
        execl(argv[0], argv[0], "watch", (char *)0);
        _exit(1);
    }
    close(pipe_[1]);
    check(read(pipe_[0], text, 6) == 6);
    save("a.ckpt", 16 * MIB, 1);
    save("b.ckpt", 4 * MIB, 2);
    save("c.ckpt", BIG, 3);
    reap("watcher", pid);
    fflush(stdout);
    for (ssize_t n; (n = must(read(pipe_[0], text, sizeof text))) > 0;)
        put(1, text, (size_t)n);
    return 0;
}
