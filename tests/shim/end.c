/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.c -- each way to end right after close, and with the file still open
 * run: captures=8
 *
 * Right: the status is the program's own, and the files are whole when it is gone.
 */
#include "helper.h"
#include <pthread.h>
#include <sys/syscall.h>

static const char *const ways[] = {"return", "exit",  "_exit", "quick_exit", "_Exit",
                                   "abort",  "group", "TERM",  "thread",     "main gone"};

static void *thread(void *name)
{
    if (name == NULL)
        exit(8);
    usleep(100000);
    save(name, BIG, 9);
    exit(9);
}

static int finish(int way, char *name)
{
    pthread_t id;
    switch (way) {
    case 0: return 3;
    case 1: exit(4);
    case 2: _exit(5);
    case 3: quick_exit(6);
    case 4: _Exit(7);
    case 5: abort();
    case 6: return (int)syscall(SYS_exit_group, 0);
    case 7: return raise(SIGTERM);
    case 8: pthread_create(&id, NULL, thread, NULL); pause(); return 0;
    default: name[0] = 'z'; pthread_create(&id, NULL, thread, name); pthread_exit(NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        int fd = create(argv[2]);
        char *p = bytes(BIG, (uint64_t)(argv[2][0] - 'a'));
        put(fd, p, BIG);
        if (argv[3][0] == 'c')
            close(fd);
        return finish(atoi(argv[1]), argv[2]);
    }
    for (int way = 0; way < 10; way++)
        for (int open_ = 0; open_ < 2; open_++) {
            char number[16], name[32];
            snprintf(number, sizeof number, "%d", way);
            snprintf(name, sizeof name, "%c%d.ckpt", 'a' + way, open_);
            fflush(stdout);
            pid_t pid = must(fork());
            if (pid == 0) {
                execl(argv[0], argv[0], number, name, open_ ? "open" : "closed", (char *)0);
                _exit(1);
            }
            reap(ways[way], pid);
            char command[64];
            snprintf(command, sizeof command, "sha256sum %s", name);
            bare(command);
        }
    return 0;
}
