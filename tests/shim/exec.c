/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec.c -- each exec function, right after a close and with a file still open
 * run: captures=1
 *
 * Right: the files are whole when the new program begins, and it can be any program.
 */
#include "helper.h"

extern char **environ;

int main(void)
{
    char command[96];
    static char *bare_environment[] = {"PATH=/bin:/usr/bin", NULL};
    for (int kind = 0; kind < 10; kind++) {
        snprintf(command, sizeof command,
                 "stat -c '%%n %%s' %d*; sha256sum %d*.ckpt; echo more >&9", kind, kind);
        char *argv[] = {"sh", "-c", command, NULL}, name[32];
        fflush(stdout);
        pid_t pid = must(fork());
        if (pid == 0) {
            snprintf(name, sizeof name, "%d.ckpt", kind);
            save(name, 2 * BIG, (uint64_t)kind);
            snprintf(name, sizeof name, "%d-open.ckpt", kind);
            int fd = create(name), sh = must(open("/bin/sh", O_RDONLY));
            char *p = bytes(BIG, 77);
            put(fd, p, BIG);
            must(dup2(fd, 9));
            switch (kind) {
            case 0: execv("/bin/sh", argv); break;
            case 1: execve("/bin/sh", argv, environ); break;
            case 2: execve("/bin/sh", argv, bare_environment); break;
            case 3: execvp("sh", argv); break;
            case 4: execvpe("sh", argv, bare_environment); break;
            case 5: fexecve(sh, argv, environ); break;
            case 6: execl("/bin/sh", "sh", "-c", command, (char *)0); break;
            case 7: execlp("sh", "sh", "-c", command, (char *)0); break;
            case 8: execle("/bin/sh", "sh", "-c", command, (char *)0, bare_environment); break;
            default: _exit(system(command) | system("echo twice >&9"));
            }
            _exit(99);
        }
        reap("exec", pid);
    }
    return 0;
}
