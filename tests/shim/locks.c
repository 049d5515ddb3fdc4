/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locks.c -- fcntl, OFD and flock locks taken before, during and after a save
 *
 * Right: a lock stands until the program ends it: no close of ours drops a POSIX
 * lock, no copy of ours prolongs a flock; and a file that has been locked still
 * is saved right.
 * run: captures-all=1
 */
#include "helper.h"
#include <sys/file.h>

static const char *name;

/* What another process is told: 0 free, or the errno. */
static void ask(const char *when)
{
    fflush(stdout);
    usleep(100000); /* whatever runs behind the program is over by then */
    pid_t pid = must(fork());
    if (pid == 0) {
        int fd = must(open(name, O_RDWR));
        struct flock l = {.l_type = F_WRLCK}, o = {.l_type = F_WRLCK};
        int a = fcntl(fd, F_SETLK, &l) ? errno : 0;
        int b = fcntl(fd, F_OFD_SETLK, &o) ? errno : 0;
        int c = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
        printf("%s %s: %d %d %d\n", name, when, a, b, c);
        fflush(stdout);
        _exit(0);
    }
    must(waitpid(pid, NULL, 0));
}

static void lock(int fd, int kind)
{
    struct flock l = {.l_type = F_WRLCK};
    must(kind == 0   ? fcntl(fd, F_SETLK, &l)
         : kind == 1 ? fcntl(fd, F_OFD_SETLK, &l)
         : kind == 2 ? flock(fd, LOCK_EX)
                     : lockf(fd, F_TLOCK, 0));
}

int main(void)
{
    static const char *before[] = {"a.ckpt", "b.ckpt", "c.ckpt", "d.ckpt"};
    static const char *during[] = {"e.ckpt", "f.ckpt", "g.ckpt", "h.ckpt"};
    char *p = bytes(BIG, 1);
    for (int kind = 0; kind < 4; kind++) {
        int fd = create(name = before[kind]);
        lock(fd, kind);
        put(fd, p, BIG);
        put(fd, p, 9);
        ask("locked");
        put(fd, p, BIG);
        close(fd);
        ask("closed");
        fd = create(name = during[kind]);
        put(fd, p, BIG);
        lock(fd, kind);
        put(fd, p, BIG);
        ask("locked");
        put_at(fd, p, 5, 0);
        close(fd);
        ask("closed");
    }
    save("i.ckpt", BIG, 1);
    int fd = must(open(name = "i.ckpt", O_RDWR)); /* right after close: not drained yet */
    lock(fd, 0);
    ask("locked");
    return close(fd);
}
