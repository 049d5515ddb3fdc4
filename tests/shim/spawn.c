/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.c -- a program is started with a file being saved as its output
 * run: captures=1
 *
 * Right: its bytes stand after those that were written before, and under later ones.
 */
#include "helper.h"
#include <spawn.h>

extern char **environ;

int main(void)
{
    char *p = bytes(BIG, 1);
    char *argv[] = {"sh", "-c", "echo from the child; head -c 2000000 /dev/zero | tr '\\0' x", NULL};
    int fd = create("a.ckpt"), other = create("b.ckpt");
    put(fd, p, BIG);
    put(other, p, BIG);
    posix_spawn_file_actions_t actions;
    check(posix_spawn_file_actions_init(&actions) == 0);
    check(posix_spawn_file_actions_adddup2(&actions, fd, 1) == 0);
    check(posix_spawn_file_actions_addclose(&actions, other) == 0);
    pid_t pid;
    check(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ) == 0);
    reap("spawn", pid);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    put(fd, p + 1, BIG - 1);
    check(posix_spawnp(&pid, "sh", &actions, NULL, argv, environ) == 0);
    reap("spawnp", pid);
    fflush(stdout);
    pid = must(fork());
    if (pid == 0) {
        dup2(fd, 1);
        execvp("sh", argv);
        _exit(1);
    }
    reap("exec", pid);
    put(fd, p, 10);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    must(dup2(fd, 9));
    int status = system("echo from system >&9");
    printf("%d\n", status);
    FILE *f = popen("cat >&9", "w");
    check(f && fputs("from popen\n", f) >= 0 && pclose(f) == 0);
    put(fd, p, BIG);
    put(other, p, 10);
    return close(fd);
}
