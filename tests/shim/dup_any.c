/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dup_any.c -- a program puts descriptors of its own under any number, while it saves
 * run: captures=20 timeout=90
 *
 * Right: each number is to be had, also one that the library uses, and is the program's from
 * then on; threads that save meanwhile and what is saved later are whole.
 */
#include "helper.h"
#include <pthread.h>
#include <sys/resource.h>

#define NUMBERS 1024

static char *p;
static _Atomic int over;

static void *saver(void *argument)
{
    char name[20];
    for (unsigned i = 0; !over; i = (i + 1) % 4) {
        snprintf(name, sizeof(name), "t%u.ckpt", i);
        save(name, MIB + 100 * i, i);
    }
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "t%u.ckpt", i);
        save(name, MIB + 100 * i, i);
    }
    return argument;
}

static void every_number(const char *name, int all, int flags)
{
    struct stat one, other;
    char text[20];
    int x = must(open(name, O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0644)), fd = -1, n = 0;

    must(fstat(x, &one));
    for (int number = 3; number < NUMBERS; number++) {
        if (number == x || number == fd)
            continue;
        if (fd < 0 || number % 50 == 3) { /* so there always is a file that is not whole */
            close(fd);
            snprintf(text, sizeof(text), "%d.ckpt", number % 400);
            fd = create(text);
            put(fd, p, BIG);
            if (fd == number)
                continue;
        }
        check((flags < 0 ? dup2(x, number) : dup3(x, number, flags)) == number);
        must(fstat(number, &other));
        check(one.st_ino == other.st_ino);
        put(number, text, (size_t)snprintf(text, sizeof(text), "%d\n", number));
        put(fd, text, 3);
        if (!all)
            close(number);
        n++;
    }
    close(fd);
    show(name);
    printf("%d\n", n);
    must(close_range((unsigned)x, ~0u, 0));
}

int main(void)
{
    struct rlimit limit;
    pthread_t thread;

    p = bytes(BIG, 1);
    must(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    must(setrlimit(RLIMIT_NOFILE, &limit));
    every_number("one.txt", 0, -1);
    every_number("all.txt", 1, O_CLOEXEC);
    closefrom(3);
    for (int number = 500; number < 540; number++)
        check(dup2(4000, number) == -1 && errno == EBADF);
    for (int i = 0; i < 6; i++) {
        char name[20];
        snprintf(name, sizeof(name), "after%d.ckpt", i);
        save(name, BIG, (uint64_t)i);
        check(dup2(1, 510 + i) == 510 + i && close(510 + i) == 0);
    }
    check(pthread_create(&thread, NULL, saver, NULL) == 0);
    for (int round = 0; round < 8; round++)
        for (int number = 500; number < 540; number++) {
            check(dup2(1, number) == number);
            usleep(200);
            must(close(number));
        }
    over = 1;
    check(pthread_join(thread, NULL) == 0);
    return 0;
}
