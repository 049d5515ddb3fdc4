/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork_threads.c -- threads save all the time while the program forks: exit, exec, a save in the child
 * run: captures=20 timeout=60
 *
 * Right: no deadlock; the threads' files and the children's files are whole.
 */
#include "helper.h"
#include <pthread.h>

static volatile int stop;

static void *saver(void *argument)
{
    char name[32], final[32];
    unsigned t = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; !stop || i < 10; i++) {
        snprintf(name, sizeof name, "t%u.tmp.ckpt", t);
        snprintf(final, sizeof final, "t%u.ckpt", t);
        save(name, 2 * MIB + t, t);
        must(rename(name, final));
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[3];
    for (uintptr_t t = 0; t < 3; t++)
        check(pthread_create(&thread[t], NULL, saver, (void *)t) == 0);
    for (int i = 0; i < 40; i++) {
        char name[16];
        pid_t pid = must(fork());
        if (pid == 0) {
            snprintf(name, sizeof name, "c%d.ckpt", i);
            if (i % 4 == 0) {
                save(name, BIG, (uint64_t)i);
                pid_t again = must(fork());
                if (again == 0)
                    _exit(0);
                waitpid(again, NULL, 0);
            }
            if (i % 4 == 1)
                execl("/bin/true", "true", (char *)0);
            _exit(i % 4 == 2 ? 2 : 0);
        }
        int status;
        must(waitpid(pid, &status, 0));
        check(WIFEXITED(status) && WEXITSTATUS(status) == (i % 4 == 2 ? 2 : 0));
        if (i % 10 == 5)
            check(system("true") == 0);
    }
    stop = 1;
    for (int t = 0; t < 3; t++)
        check(pthread_join(thread[t], NULL) == 0);
    return 0;
}
