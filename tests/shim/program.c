/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c -- the program writes a program and runs it at once, 10 times
 * run: timeout=30
 *
 * Right: it runs: no ETXTBSY because someone of ours still has it open for writing.
 */
#include "helper.h"

int main(int argc, char **argv)
{
    if (argc > 1)
        return atoi(argv[1]);
    struct stat st;
    int self = must(open("/proc/self/exe", O_RDONLY));
    must(fstat(self, &st));
    size_t n = (size_t)st.st_size;
    char *p = bytes(n + 2 * MIB, 1), name[16], number[8];
    check(read(self, p, n) == (ssize_t)n);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "./%d.ckpt", i);
        snprintf(number, sizeof number, "%d", i + 1);
        int fd = must(open(name, O_CREAT | O_WRONLY, 0755));
        put(fd, p, n + 2 * MIB);
        close(fd);
        pid_t pid = must(fork());
        if (pid == 0) {
            if (i % 2)
                unsetenv("LD_PRELOAD");
            execl(name, name, number, (char *)0);
            _exit(errno == ETXTBSY ? 100 : 101);
        }
        reap(name, pid);
    }
    return 0;
}
