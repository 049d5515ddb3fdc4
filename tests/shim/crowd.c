/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.c -- 300 processes of one job save at the same moment
 * run: captures=1 timeout=120
 *
 * Right: all files; who finds no place with the agent writes as usual.
 */
#include "helper.h"

int main(void)
{
    enum { CROWD = 300 };
    int start[2];
    pid_t pid[CROWD];
    must(pipe(start));
    for (int i = 0; i < CROWD; i++) {
        pid[i] = must(fork());
        if (pid[i] == 0) {
            char name[24], end;
            close(start[1]);
            check(read(start[0], &end, 1) == 0);
            snprintf(name, sizeof name, "%d.tmp.ckpt", i);
            save(name, MIB + (size_t)i, (uint64_t)i);
            char final[16];
            snprintf(final, sizeof final, "%d.ckpt", i);
            must(rename(name, final));
            _exit(i % 100);
        }
    }
    close(start[1]);
    int wrong = 0;
    for (int i = 0; i < CROWD; i++) {
        int status;
        must(waitpid(pid[i], &status, 0));
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != i % 100;
    }
    printf("%d\n", wrong);
    save("last.ckpt", BIG, 1);
    return 0;
}
